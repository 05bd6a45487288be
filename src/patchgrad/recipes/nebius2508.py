"""The recipe of arXiv 2508.03501 as a value, and what changes where the machine is smaller than the paper's.

    nebius2508("cluster")    the paper's own: every number that it reports, and our choice where it reports none (`UNREPORTED`)
    nebius2508("gpu")        the same for one card; sized by arithmetic, and not tried
    nebius2508("laptop")     the same for two cores and no model: what `make train` runs

A scale is a list of changes to the paper's values, each with its reason, so that nothing can differ without one. `--print` tells the
paper's value and the reason with each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, get_args

from patchgrad.config import override, require
from patchgrad.recipes.change import Change, both, stages, values
from patchgrad.recipes.component import Component
from patchgrad.recipes.evaluation_choice import EvaluationChoice
from patchgrad.recipes.limits import AttemptLimits
from patchgrad.recipes.loss import LossChoice
from patchgrad.recipes.optimiser import Optimiser
from patchgrad.recipes.recipe import AgentChoice, Machine, PolicyChoice, Recipe, SandboxChoice, TaskSource
from patchgrad.recipes.rft import IMITATED, Rft
from patchgrad.recipes.stage import LengthPenalty, Stage, StageSampling, Start

Scale = Literal["laptop", "gpu", "cluster"]

FAILURES = ("rft.failures", "stages.*.advantage.failures")
UNREAD = ("no_command", "truncated", "several_commands", "bad_arguments")

_STAGE = Stage(
    algorithm="dapo",
    iterations=80,
    plateau=10,
    lr=1e-6,
    decay=0.0,
    sampling=StageSampling(tasks=300, attempts=10),
    limits=AttemptLimits(turns=40, context=65_536, seconds=7200.0),
    reward=LengthPenalty(length_threshold=10, length_weight=1.0),
    loss=LossChoice(clip_high=0.3, minibatch=128),
)
_SECOND = replace(
    _STAGE,
    iterations=40,
    start=Start(refresh_before=True),
    sampling=StageSampling(tasks=100, attempts=10),
    limits=AttemptLimits(turns=80, context=131_072, seconds=7200.0),
    loss=LossChoice(clip_high=0.26, minibatch=256),
)

PAPER = Recipe(
    name="nebius2508",
    machine=Machine(nodes=16, gpus=8),
    tasks=TaskSource(source=Component("set"), folder="sets/swe-rebench", train=7249, held_out=500),
    agent=AgentChoice(prompts="full", window=60, observation=3600, action_tokens=2048, format_errors=0),
    policy=PolicyChoice(
        model="Qwen/Qwen2.5-72B-Instruct",
        context=131_072,
        yarn=4.0,
        vllm="vllm/bin/python",
        options=("tensor-parallel-size=8",),
        replicas=8,
    ),
    trainer=Component("sharded", {"ranks": 64, "together": 8}),
    sandbox=SandboxChoice(backend=Component("oci"), concurrency=3000),
    optimiser=Optimiser(
        name="adamw",
        betas=(0.9, 0.999),
        weight_decay=0.1,
        clip=1.0,
        frozen=(),
        micro_batch_tokens=16_384,
        gradient_checkpointing=True,
        precision="bfloat16",
    ),
    rft=Rft(
        rounds=1,
        tasks=7249,
        attempts=10,
        demonstration=True,
        cap=None,
        dedupe=False,
        epochs=1,
        batch=128,
        lr=5e-6,
        schedule="cosine",
        warmup=10,
        limits=AttemptLimits(turns=40, context=65_536, seconds=7200.0),
        failures=IMITATED,
    ),
    stages=(_STAGE, _SECOND),
    evaluation=EvaluationChoice(
        limits_per_policy="own",
        every=1,
        sample=50,
        attempts=10,
        limits=AttemptLimits(turns=80, context=131_072, seconds=7200.0),
        temperature=0.7,
        top_p=0.8,
        top_k=20,
        repetition_penalty=1.05,
    ),
)

REPORTED = frozenset(
    {
        *("machine.nodes", "machine.gpus", "tasks.train", "tasks.held_out", "agent.prompts", "policy.model", "policy.context"),
        *(f"optimiser.{name}" for name in ("name", "betas", "epsilon", "weight_decay", "clip", "frozen", "rank")),
        *(f"rft.{name}" for name in ("rounds", "tasks", "attempts", "demonstration", "epochs", "lr", "schedule", "warmup")),
        *("rft.limits.context", "stages.*.algorithm", "stages.*.lr", "stages.*.start.refresh_before", "stages.*.start.at"),
        *(f"stages.*.sampling.{name}" for name in ("tasks", "attempts", "forks", "top_p")),
        *("stages.*.limits.turns", "stages.*.limits.context", "stages.*.reward.length_threshold", "stages.*.reward.length_weight"),
        *(f"stages.*.advantage.{name}" for name in ("baseline", "baseline_offset", "step_weight", "confident_above", "penalty")),
        *(f"stages.*.loss.{name}" for name in ("clip_low", "clip_high", "minibatch")),
        *(f"{place}.{name}" for place in FAILURES for name in (*UNREAD, "unknown_tool", "looping", "undone", "overlong")),
        *("evaluation.attempts", "evaluation.every", "evaluation.sample", "evaluation.limits_per_policy", "evaluation.limits.context"),
    }
)
"""Fields whose value the paper tells, or tells that it has nothing of the kind."""

READ: Mapping[str, str] = {
    "policy.yarn": "a factor of 4 for 131k tokens; whether at 65k too is not told, and a model has one rope here",
    "sandbox.backend": "a pod each under Kubernetes; here containers of any engine",
    "rft.batch": "64 sequences in 50 steps; that fits its 6,548 trajectories only if two share a sequence",
    "stages.*.loss.aggregate": "the mean over all tokens of the batch in the prose, over a group in Eq. 8; the row's own is the former",
    "stages.*.advantage.filter_on": "samples without an advantage are dropped; only the reading by outcome fits 2 to 8 steps an iteration",
    "stages.*.plateau": "a stage ends when Pass@1 begins to plateau; how that is seen is not told",
    "stages.*.iterations": "more than 100 together; a plateau ends a stage before",
    "evaluation.temperature": "that of the model's own generation_config.json, which is this",
    "evaluation.top_p": "the same",
    "evaluation.top_k": "the same",
    "evaluation.repetition_penalty": "the same",
}
"""What the paper tells otherwise or in two ways, and how it is read."""

UNREPORTED: Mapping[str, str] = {
    "seed": "any",
    "tasks.folder": "what patchgrad tasks import and lint --filter nebius2508 make of SWE-rebench, with SWE-bench Verified held out",
    "agent.window": "what an observation has room for",
    "agent.observation": "80 turns fit into 131,072 tokens, and 40 into half of them, even if each has the longest observation",
    "agent.action_tokens": "room for a thought and a new file; 80 turns fit while actions have 350 tokens in the mean",
    "agent.format_errors": "none ends an attempt",
    "agent.repeats": "nothing of the kind is told",
    "agent.announced": "nothing of the kind is told",
    "sandbox.concurrency": "all attempts of an iteration at once",
    "policy.vllm": "the paper's server is vLLM, too; a Python that has it, at the same place on all nodes",
    "policy.options": "a replica takes the eight GPUs of a node",
    "policy.replicas": "eight nodes sample, and eight train (`patchgrad plan --cluster`)",
    "trainer": "as many ranks as GPUs of the nodes that train, of which eight share a longest attempt",
    "optimiser.micro_batch_tokens": "an eighth of the longest attempt for each of the ranks that share it",
    "optimiser.gradient_checkpointing": "what 80 layers keep of 131,072 tokens would be terabytes",
    "optimiser.precision": "weights and states stay float32",
    "optimiser.imitation": "as in RL",
    "optimiser.alpha": "there are no adapters",
    "optimiser.offload": "its cards hold the optimiser's states",
    "rft.limits.turns": "as in the first stage",
    "rft.limits.seconds": "two hours, for a loaded server",
    "rft.cap": "none is told",
    "rft.dedupe": "none is told",
    **{f"stages.*.health.{name}": "no such test is told" for name in ("submitted", "looping", "unreadable", "patience")},
    "stages.*.limits.seconds": "two hours, for a loaded server",
    "stages.*.sampling.continuations": "there are no forks",
    **{f"{place}.{kind}": "none is told" for place in FAILURES for kind in ("timeout", "died", "out_of_memory", "sandbox_lost")},
    "stages.*.warmup": "no schedule and no warm-up is told",
    "stages.*.decay": "no schedule and no warm-up is told",
    "stages.*.loss.epochs": "each attempt is seen once",
    "stages.*.loss.old": "the sampler's; recomputing them is the other reading",
    "evaluation.limits.turns": "as in the second stage",
    "evaluation.limits.seconds": "no limit is told",
}
"""What the paper does not tell, and why we take what we take."""


_ALONE = {"policy.vllm": "", "policy.options": "", "policy.replicas": "0"}

LAPTOP = (
    Change("two cores, nothing downloaded", {"machine.nodes": "1", "machine.gpus": "0", "trainer": "local"} | _ALONE),
    Change(
        "repositories made from the seed, since none can be downloaded",
        {"tasks.source": "synthetic", "tasks.folder": "", "tasks.train": "2000", "tasks.held_out": "60"},
    ),
    Change(
        "a network of some million parameters that a warm-up makes from scratch, with the context that it is told",
        {"policy.model": "", "policy.context": "2048", "policy.yarn": "1"},
    ),
    Change(
        "what a network from scratch can read and say; one that has lost the format says its longest turns",
        {
            "agent.prompts": "brief",
            "agent.window": "12",
            "agent.observation": "600",
            "agent.action_tokens": "48",
            "agent.format_errors": "3",
        },
    ),
    Change("no container engine is needed", {"sandbox.backend": "bwrap"}),
    Change("what two cores keep busy", {"sandbox.concurrency": "24"}),
    Change("generated tests do not flake, and ten attempts at a task do much the same in the same state", {"sandbox.cache": "true"}),
    Change(
        "edits that do not apply in 73 % of episodes after a warm-up from scratch by Muon, 94 % by AdamW (docs/studies/laptop.md)",
        {"optimiser.name": "muon"},
    ),
    Change(
        "frozen, imitation fitted better in 19 of 21 steps of one round (docs/studies/laptop.md)",
        {"optimiser.frozen": "model.embed_tokens.weight"},
    ),
    Change("usual for small networks; not compared", {"optimiser.betas": "0.9,0.95", "optimiser.weight_decay": "0"}),
    Change("faster on such cores", {"optimiser.micro_batch_tokens": "2560", "optimiser.gradient_checkpointing": "false"}),
    Change("what such cores sample in, so that ratios begin at 1", {"optimiser.precision": "float32"}),
    Change(
        "minutes, not days",
        {"rft.tasks": "100", "rft.batch": "8", "rft.limits.turns": "12", "rft.limits.context": "1536", "rft.limits.seconds": "600"},
    ),
    Change("a warm-up teaches a network from scratch the protocol, and brief prompts have none to show", {"rft.demonstration": "false"}),
    Change(
        "an edit that did not apply is the commonest failure of so small a network, and is not to be imitated; not compared",
        {"rft.failures.bad_arguments": "mask"},
    ),
    Change("easy tasks would fill so small a set, often with the same few tokens", {"rft.cap": "4", "rft.dedupe": "true"}),
    Change("a small network takes larger steps, and a round has few", {"rft.lr": "3e-4", "rft.schedule": "constant", "rft.warmup": "0"}),
    Change(
        "minutes, not days",
        stages(
            {
                "iterations": "5",
                "sampling.tasks": "16",
                "loss.minibatch": "20",
                "limits.turns": "12",
                "limits.context": "1536",
                "limits.seconds": "600",
            },
            {
                "iterations": "6",
                "sampling.tasks": "16",
                "loss.minibatch": "20",
                "limits.turns": "20",
                "limits.context": "2048",
                "limits.seconds": "600",
            },
        ),
    ),
    Change("fewer iterations than the test needs", both({"plateau": "0"})),
    Change("a small network takes larger steps", stages({"lr": "5e-4"}, {"lr": "4e-4"})),
    Change("a small network loses the format if its steps stay large", both({"decay": "1"})),
    Change(
        "at the full price an attempt at the turn limit costs 1 more than giving up, and giving up spread (docs/studies/laptop.md)",
        stages(
            {"reward.length_threshold": "8", "reward.length_weight": "0.1"},
            {"reward.length_weight": "0.2"},
        ),
    ),
    Change(
        "failures are the longer attempts here, and what all attempts share was pushed down",
        both({"advantage.baseline": "tokens", "advantage.baseline_offset": "0.1"}),
    ),
    Change(
        "beyond the paper: copying is most of an attempt, and is the same in what succeeds and what fails",
        both({"advantage.confident_above": "0.96"}),
    ),
    Change(
        "beyond the paper: a turn that did nothing is never rewarded, and one that repeats another is blamed (docs/studies/climb.md)",
        both({f"advantage.failures.{kind}": "withhold" for kind in UNREAD} | {"advantage.failures.looping": "penalise"}),
    ),
    Change("to go on in vain has to cost more than a wrong submission (docs/studies/climb.md)", both({"reward.unsubmitted": "0.5"})),
    Change("an attempt that does not know that it ends submits nothing", {"agent.announced": "3"}),
    Change("a call that was made before tells nothing (docs/studies/climb.md)", {"agent.repeats": "3"}),
    Change("a stage that loses its health ends", both({"health.submitted": "0.6", "health.looping": "0.2", "health.unreadable": "0.3"})),
    Change("a base that solves something, on any processor", {"warmup.until": "0.05", "warmup.passes": "3"}),
    Change("so that the better policy of a stage goes on", {"validation.tasks": "60"}),
    Change(
        "minutes, not days",
        {
            f"evaluation.{n}": v
            for n, v in (("attempts", "2"), ("limits.turns", "20"), ("limits.context", "2048"), ("limits.seconds", "600"))
        },
    ),
    Change("100 attempts beside an iteration's 160", {"evaluation.every": "0"}),
    Change("so that no difference is one of budget alone", {"evaluation.limits_per_policy": "same"}),
    Change(
        "the distribution that was trained: a network made here has no setting of its own",
        {"evaluation.temperature": "1", "evaluation.top_p": "1", "evaluation.top_k": "0", "evaluation.repetition_penalty": "1"},
    ),
)

GPU = (
    Change(
        "one card of 141 GB, as the plan takes 104 at least; on one of 80 GB contexts of 65,536 fit",
        {"machine.nodes": "1", "machine.gpus": "1", "trainer": "local", "optimiser.micro_batch_tokens": "131072"} | _ALONE,
    ),
    Change("this model reads 262,144 tokens as it is", {"policy.model": "Qwen/Qwen3-4B-Instruct-2507", "policy.yarn": "1"}),
    Change("4 billion parameters take 64 GB with gradients and AdamW's states, which stay in host memory", {"optimiser.offload": "true"}),
    Change("the caches of so many attempts of middling length beside that", {"sandbox.concurrency": "16"}),
    Change(
        "days, not months",
        {"tasks.train": "1000", "rft.tasks": "200", "rft.batch": "32", "evaluation.attempts": "5", "evaluation.every": "10"}
        | stages(
            {"iterations": "40", "sampling.tasks": "16", "loss.minibatch": "32"},
            {"iterations": "20", "sampling.tasks": "16", "loss.minibatch": "64"},
        ),
    ),
    Change("Verified-50, where it is there", {"tasks.held_out": "50"}),
    Change("the model's own generation_config.json", {"evaluation.repetition_penalty": "1"}),
)

CHANGES: Mapping[Scale, tuple[Change, ...]] = {"laptop": LAPTOP, "gpu": GPU, "cluster": ()}


def nebius2508(scale: Scale = "laptop") -> Recipe:
    """The paper's recipe at a scale. Raises `ConfigError` for one that does not exist."""
    require(scale in CHANGES, f"There is no scale {scale}; there are: {', '.join(get_args(Scale))}.")
    return override(PAPER, values(*CHANGES[scale]))
