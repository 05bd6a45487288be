"""The peers' side of `benchmarks/journal/turns.py`; runs in an environment of its own, which that script makes.

    python turns_peers.py trl CONVERSATION --tokenizer FOLDER
    python turns_peers.py mini-swe-agent CONVERSATION

A conversation is JSON: pairs of role and content. Prints one JSON object. Imports are in no time.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell

Conversation = list[tuple[str, str]]


def trl(folder: Path, said: Conversation) -> dict[str, float]:
    """TRL 1.16, the asynchronous worker: `_generate_one` without what generates, parses and calls tools."""
    from transformers import AutoTokenizer
    from trl.experimental.async_grpo.async_rollout_worker import TurnRecord, _chain_to_sequences

    tokenizer = AutoTokenizer.from_pretrained(folder)
    answers = [tokenizer(content + "<|im_end|>", add_special_tokens=False)["input_ids"] for role, content in said if role == "assistant"]
    messages = [{"role": role, "content": content} for role, content in said[:2]]
    turns: list[Any] = []
    start = time.thread_time()
    for answer, (role, content), (observer, observed) in zip(answers, said[2::2], said[3::2], strict=True):
        prompt = tokenizer.apply_chat_template(messages, return_dict=False, add_generation_prompt=True)
        turns.append(TurnRecord(prompt, answer, [-0.5] * len(answer)))
        messages += [{"role": role, "content": content}, {"role": observer, "content": observed}]
    rows, _ = _chain_to_sequences(turns, "t", 32)
    return {"seconds": time.thread_time() - start, "tokens": len(rows[0].input_ids), "rows": len(rows)}


def mini_swe_agent(said: Conversation) -> dict[str, float]:
    """mini-swe-agent 2.4: its agent, its scripted model, an environment that answers from memory, its trajectory file."""
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.models.test_models import DeterministicModel, make_output

    answers = [content for role, content in said if role == "assistant"]
    observed = iter([content for role, content in said[2:] if role == "user"])
    written = 0

    class Remembering:
        """Answers what stands in the conversation."""

        config: Any = None

        def execute(self, action: Any, cwd: str = "") -> dict[str, Any]:
            return {"output": next(observed), "returncode": 0, "exception_info": ""}

        def get_template_vars(self, **more: Any) -> dict[str, Any]:
            return more

        def serialize(self) -> dict[str, Any]:
            return {}

    real = Path.write_text

    def counted(path: Path, text: str, *words: Any, **more: Any) -> int:
        nonlocal written
        written += len(text.encode())
        return real(path, text, *words, **more)

    Path.write_text = counted  # type: ignore[method-assign,assignment]
    with tempfile.TemporaryDirectory() as folder:
        model = DeterministicModel(outputs=[make_output(answer, [{"command": "open"}], 0.0) for answer in answers])
        agent = DefaultAgent(
            model,
            Remembering(),
            system_template=said[0][1],
            instance_template=said[1][1],
            step_limit=len(answers),
            output_path=Path(folder) / "trajectory.json",
        )
        start = time.thread_time()
        agent.run()
        return {"seconds": time.thread_time() - start, "bytes": written}


def main() -> None:
    """Measures the peer that is named."""
    asked = parser(__doc__)
    asked.add_argument("name", choices=("trl", "mini-swe-agent"))
    asked.add_argument("conversation", type=Path)
    asked.add_argument("--tokenizer", type=Path)
    given = asked.parse_args()
    said = [(role, content) for role, content in json.loads(given.conversation.read_text())]
    tell(trl(given.tokenizer, said) if given.name == "trl" else mini_swe_agent(said))


if __name__ == "__main__":
    main()
