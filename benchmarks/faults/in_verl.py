"""The known bugs of `tests/learning/test_provenance.py` that can be put into what verl's agent loops hand over: which are noticed?

    python benchmarks/faults/in_verl.py

verl 0.9.1 is installed in an environment of its own, below the cache. A conversation of three turns is joined by verl's own builder, with
a small model of random weights as the sampler and as the trainer. Each fault is put in alone: into what the sampler is given or answers,
or into the `AgentLoopOutput`. It goes through verl's own functions, called on stand-ins for what needs a cluster, in two ways. `queue` is
verl's default: `AgentLoopWorkerTQ`, the old log-probabilities and advantages of `PPOTrainer` under verl's configuration with GRPO, and
`ppo_loss`; a dict stands in for the queue. `padded` is `AgentLoopWorker`, its `_postprocess` into a `DataProto`, `calculate_debug_metrics`,
`compute_advantage`, and `ppo_loss`.

`refused`: an error is raised. `counted`: verl's metric of how far the probabilities of sampler and trainer lie apart, 0 for the honest
conversation, is not 0. `repaired`: the tensors that are trained on are the honest ones. `trained`: they are not, and nothing tells of it.
The batch has a longer attempt in it as well; what changes when it has a shorter one is said. `honest gradient`: that of the loss is the
same as without the fault. An attempt that is there twice bears the name of another session the second time.

Left out: a version that is not the one that sampled, what goes wrong in packing, and a stale state, which have no place in that format.
A table, and JSON last.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell
from benchmarks.library.peers import Peer

NEEDED = ("torch==2.13.0", "tensordict==0.10.0", "transformers==5.10.4", "TransferQueue==0.1.11", "cachetools", "codetiming", "datasets")
VERL = Peer("verl", (*NEEDED, "fastapi", "peft", "pillow", "torchdata", "uvicorn"), alone=("verl==0.9.1",))

DRIVER = """
import asyncio
import json
import traceback
import warnings
from types import SimpleNamespace

warnings.simplefilter("ignore")

import hydra
import numpy as np
import torch
import verl.trainer.ppo.v1.agent_loop_tq as loops
import verl.trainer.ppo.v1.trainer_base as trainers
from tensordict import TensorDict
from tokenizers import Tokenizer, models, pre_tokenizers
from transfer_queue import KVBatchMeta
from transfer_queue.storage.managers.simple_storage_manager import AsyncSimpleStorageManager
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, AgentLoopWorker
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.debug.metrics import calculate_debug_metrics
from verl.utils.tensordict_utils import assign_non_tensor
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import left_right_2_no_padding, no_padding_2_padding

torch.set_num_threads(1)
torch.manual_seed(0)
WORDS = ["[PAD]", "[UNK]", "user", "assistant", "tool", "end", *(f"w{n}" for n in range(90))]
LEVEL = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
LEVEL.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
TOKENIZER = PreTrainedTokenizerFast(tokenizer_object=LEVEL, pad_token="[PAD]", unk_token="[UNK]", eos_token="end")
TOKENIZER.chat_template = (
    "{% for m in messages %}{{ m.role }} {{ m.content }} {% if m.role != 'assistant' %}end {% endif %}{% endfor %}"
    "{% if add_generation_prompt %}assistant {% endif %}"
)
BUILDER = create_continuous_token_builder(TOKENIZER)
SIZES = {"vocab_size": len(WORDS), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
MODEL = LlamaForCausalLM(LlamaConfig(**SIZES, initializer_range=0.3)).eval()
OVERRIDES = {
    "algorithm.adv_estimator": "grpo",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 2,
    "actor_rollout_ref.actor.use_torch_compile": "false",
    "actor_rollout_ref.rollout.prompt_length": 32,
    "actor_rollout_ref.rollout.response_length": 128,
}
with hydra.initialize_config_module("verl.trainer.config", version_base=None):
    CONFIG = hydra.compose("ppo_trainer", [f"{name}={value}" for name, value in OVERRIDES.items()])
ACTOR = omega_conf_to_dataclass(CONFIG.actor_rollout_ref.actor)
METRIC = "training/rollout_probs_diff_max"
FIELDS = ["prompts", "responses", "response_mask", "rollout_log_probs", "old_log_probs", "advantages"]


def scores(ids):
    "The model's log-probability of each next token, and a 0 at the end, as verl's engines lay them out."
    found = MODEL(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
    return torch.cat([found.gather(1, torch.tensor(ids[1:])[:, None])[:, 0], torch.zeros(1)])


def jagged(rows):
    return torch.nested.as_nested_tensor([scores(row) for row in rows], layout=torch.jagged)


def sampled(ids):
    said = []
    while len(said) < 11:
        odds = MODEL(torch.tensor([ids + said])).logits[0, -1].softmax(-1)
        said.append(6 + int(torch.multinomial(odds[6:], 1)))
    return [*said, TOKENIZER.eos_token_id]


def words(first, count):
    return " ".join(f"w{(first + n) % 90}" for n in range(count))


@torch.no_grad()
def attempt(first, heard, said=(), given=lambda ids: ids, answer=lambda said, logprobs: (said, logprobs)):
    "What the model says in three turns, and what verl's builder makes of it."
    messages, said, mask, logprobs = [{"role": "user", "content": words(first, 12)}], list(said), [], []
    ids = BUILDER.build_initial_tokens(messages)
    start = len(ids)
    for turn in range(3):
        context = given(ids) if turn else ids
        if turn == len(said):
            said.append(sampled(context))
        out, own = answer(said[turn], scores(context + said[turn])[len(context) - 1 : -1].tolist())
        merged = BUILDER.merge_assistant_tokens(ids, out)
        mask, logprobs = BUILDER.align_response_metadata(merged, mask, logprobs, assistant_logprobs=own)
        if turn < 2:
            before = [*messages, {"role": "assistant", "content": TOKENIZER.decode(out)}]
            messages = [*before, {"role": "tool", "content": words(first + 10 * turn, heard)}]
            merged = BUILDER.merge_context_tokens(before, messages, merged.token_ids)
            mask, logprobs = BUILDER.align_response_metadata(merged, mask, logprobs)
        ids = merged.token_ids
    return said, {"prompt_ids": ids[:start], "response_ids": ids[start:], "response_mask": mask, "response_logprobs": logprobs}


(SAID, HONEST), (_, LONGER), (_, SHORTER) = attempt(0, 15), attempt(30, 35), attempt(60, 10)


def sampler(**bent):
    return lambda other: [attempt(0, 15, SAID, **bent)[1], other]


def loop(**bent):
    return lambda other: [HONEST | {f"response_{name}": change(HONEST[f"response_{name}"]) for name, change in bent.items()}, other]


def second(mask):
    start = mask.index(1, mask.index(0))
    return start, mask.index(0, start)


def mixed(other):
    (a, b), (c, d) = second(HONEST["response_mask"]), second(other["response_mask"])
    return [HONEST | {name: HONEST[name][:a] + other[name][c:d] + HONEST[name][b:] for name in HONEST if name != "prompt_ids"}, other]


FAULTS = {
    "a history that is tokenised again": loop(ids=lambda ids: [*ids[:4], 50, 51, *ids[6:]]),
    "a history that is tokenised into more ids": loop(ids=lambda ids: [*ids[:4], 50, 51, *ids[5:]]),
    "a context that is truncated": sampler(given=lambda ids: ids[-20:]),
    "reasoning that is stripped from earlier turns": loop(ids=lambda ids: ids[6:]),
    "a template that changes": sampler(given=lambda ids: [9, 9, *ids[1:]]),
    "turns of two attempts that are mixed up": mixed,
    "a stop token that is dropped": sampler(answer=lambda said, logprobs: (said[:-1], logprobs[:-1])),
    "padding that is counted": loop(mask=lambda mask: mask + [1] * 8),
    "a mask that is shifted by one": loop(mask=lambda mask: mask[-1:] + mask[:-1]),
    "an advantage on observations": loop(mask=lambda mask: [1] * len(mask)),
    "a log-probability that is lost": sampler(answer=lambda said, logprobs: (said, logprobs[1:])),
    "a log-probability that is lost in the loop": loop(logprobs=lambda logprobs: logprobs[1:]),
    "log-probabilities of another version": sampler(answer=lambda said, logprobs: (said, [p - 0.5 for p in logprobs])),
    "a log-probability that is no number": sampler(answer=lambda said, logprobs: (said, [float("nan")] * len(said))),
    "an attempt that is there twice": lambda other: [HONEST, HONEST, other],
}


class Queue:
    "Instead of TransferQueue's servers; its own function packs the rows."

    def __init__(self):
        self.rows = {}

    def kv_batch_put(self, keys, partition_id, fields):
        for number, key in enumerate(keys):
            self.rows.setdefault(key, {}).update({name: fields[name][number] for name in fields.keys()})
        return KVBatchMeta(list(keys), [{}] * len(keys), partition_id)

    async def async_kv_batch_put(self, keys, fields, tags, partition_id):
        return self.kv_batch_put(keys, partition_id, fields)

    def kv_batch_get(self, keys, partition_id, select_fields):
        rows = [self.rows[key] for key in keys]
        pack = AsyncSimpleStorageManager._pack_field_values
        return TensorDict({name: pack([row[name] for row in rows]) for name in select_fields if name in rows[0]}, batch_size=len(rows))


def worker(kind):
    made = kind.__new__(kind)
    made.tokenizer, made.processor, made.reward_loop_worker_handles = TOKENIZER, None, None
    made.distillation_enabled, made.mm_processor_kwargs, made.rollout_config = False, {}, CONFIG.actor_rollout_ref.rollout
    return made


def outputs(attempts):
    return [AgentLoopOutput(**one, reward_score=float(number == 0), num_turns=6, metrics={}) for number, one in enumerate(attempts)]


def gradient(rows, data):
    MODEL.zero_grad()
    assign_non_tensor(data, dp_size=1, batch_num_tokens=int(data["response_mask"].sum()), global_batch_size=len(rows))
    ppo_loss(ACTOR, {"log_probs": jagged(rows)}, data)[0].backward()
    return torch.cat([parameter.grad.flatten() for parameter in MODEL.parameters()])


def queue(attempts):
    store = loops.tq = trainers.tq = Queue()
    own, metrics = worker(loops.AgentLoopWorkerTQ.__ray_metadata__.modified_class), {}
    for number, output in enumerate(outputs(attempts)):
        asyncio.run(own._agent_loop_postprocess(output, False, uid="u", session_id=number, global_steps=1, raw_prompt=""))
    rows = [row["input_ids"].tolist() for row in store.rows.values()]

    @torch.no_grad()
    def compute_log_prob(batch):
        for row in store.rows.values():
            row["log_probs"] = scores(row["input_ids"].tolist())
            row["entropy"] = torch.zeros_like(row["log_probs"])
        return batch

    trainer = SimpleNamespace(config=CONFIG, actor_rollout_wg=SimpleNamespace(compute_log_prob=compute_log_prob))
    batch = KVBatchMeta(list(store.rows), [{}] * len(rows), "train")
    batch = trainers.PPOTrainer._compute_old_log_prob(trainer, batch, metrics)
    batch = trainers.PPOTrainer._compute_advantage(trainer, batch, metrics)
    data = store.kv_batch_get(batch.keys, "train", FIELDS)
    return metrics[METRIC], data.to_padded_tensor(), gradient(rows, data)


def padded(attempts):
    own = worker(AgentLoopWorker)
    data = own._postprocess([asyncio.run(own._agent_loop_postprocess(one, False, raw_prompt="")) for one in outputs(attempts)])
    batch, data.non_tensor_batch["uid"] = data.batch, np.array(["u"] * len(attempts))
    rows = [row[kept.bool()].tolist() for row, kept in zip(batch["input_ids"], batch["attention_mask"])]
    with torch.no_grad():
        batch["old_log_probs"] = no_padding_2_padding(jagged(rows), batch)
    metrics, batch["token_level_rewards"] = calculate_debug_metrics(data), batch["rm_scores"]
    batch = compute_advantage(data, "grpo", config=CONFIG.algorithm).batch
    return metrics[METRIC], batch.select(*FIELDS).clone(), gradient(rows, left_right_2_no_padding(batch))


def same(one, two):
    return one.shape == two.shape and torch.allclose(one.float(), two.float(), atol=1e-5)


def verdict(way, make, other):
    honest = way([HONEST, other])
    assert honest[0] < 1e-5, "the honest conversation has one model"
    try:
        apart, tensors, slope = way(make(other))
    except Exception as error:
        where = [frame.name for frame in traceback.extract_tb(error.__traceback__) if "/site-packages/verl/" in frame.filename]
        return f"refused: {where[-1]}: {error}"  # one that is not verl's has no such frame, and ends this
    if not apart < 1e-3:
        return f"counted: {METRIC} {apart:.2f}" + ", honest gradient" * same(slope, honest[2])
    return "repaired" if all(same(tensors[field], honest[1][field]) for field in FIELDS) else "trained"


told = {}
for name, make in FAULTS.items():
    for way in (queue, padded):
        first, short = (verdict(way, make, other) for other in (LONGER, SHORTER))
        kinds = [one.partition(":")[0] for one in (first, short)]
        told.setdefault(name, {})[way.__name__] = first if kinds[0] == kinds[1] else f"{first}; beside a shorter one {short}"
print(json.dumps(told))
"""


def main() -> None:
    """Puts them in, and says what became of each."""
    parser(__doc__).parse_args()
    told: dict[str, dict[str, str]] = VERL.answer("-c", DRIVER)
    for name, ways in told.items():
        for way, what in ways.items():
            print(f"{name:46} {way:7} {what}")
    for way in ("queue", "padded"):
        kinds = [ways[way].partition(":")[0].partition(";")[0] for ways in told.values()]
        print(way, {kind: kinds.count(kind) for kind in ("refused", "repaired", "counted", "trained")})
    tell(told)


if __name__ == "__main__":
    main()
