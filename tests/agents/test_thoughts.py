"""A draft in a thought is no command, whoever opened the thought; a tag that a command or a sentence speaks of is a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.agents.parsing import blocks
from patchgrad.agents.thoughts import aloud


def block(text: str) -> str:
    return f"```command\n{text}\n```"


DRAFT, LOOK = block("rm -rf /"), block("ls")
FILE = "cat > a.md << EOF\n<think>\n```command\nls\n```\n</think>\nEOF"


@pytest.mark.parametrize(
    "text",
    [
        f"<think>\n{DRAFT}\n</think>\n{LOOK}",
        f"<thinking>Or\n{DRAFT}\n</thinking>\n{LOOK}",
        f"  <Think>\n{DRAFT}\n</THINK>\n{LOOK}",
        f"<seed:think>\n{DRAFT}\n</seed:think>{LOOK}",
        f"[THINK]Or\n{DRAFT}\n[/THINK]So.\n{LOOK}",
        f"◁think▷\n{DRAFT}\n◁/think▷\n{LOOK}",
        f"<reasoning>\n{DRAFT}\n</reasoning>\n{LOOK}\n<reasoning>\n{DRAFT}\n</reasoning>",
        f"<think></think>\n{LOOK}",
        f"<think>\ncat << EOF\n{DRAFT}\n</think>\n{LOOK}",
        f"Or\n{DRAFT}\n</think>\n\n{LOOK}",
        f"Or\n{DRAFT}\nbetter not.</think>\n{LOOK}",
        f"Or\n{DRAFT}\n</think>Better not.\n{LOOK}",
        f"Or\n```command\nrm -rf /\n</think>\n{LOOK}",
    ],
)
def test_the_command_is_the_one_that_is_said(text: str) -> None:
    assert blocks(text) == ["ls"]
    assert blocks(text.replace("\n", "\r\n")) == ["ls"]


@pytest.mark.parametrize("text", [f"<think>\n{DRAFT}", f"<think>\n{DRAFT}\n</thinking", f"Or\n{DRAFT}\n</think>\nDone."])
def test_a_thought_alone_holds_no_command(text: str) -> None:
    assert blocks(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (block(FILE), [FILE]),
        (block("grep -rn '</think>' ."), ["grep -rn '</think>' ."]),
        (block("sed -i 's/<think>//' a.py\nls"), ["sed -i 's/<think>//' a.py\nls"]),
        (f"{LOOK}\nThe parser looks for </think> there.", ["ls"]),
        (f"I look for `<think>` first.\n{LOOK}", ["ls"]),
        (f"[Reasoning]\nThe bug is there.\n{LOOK}", ["ls"]),
        (f"<answer>\n{LOOK}\n</answer>", ["ls"]),
        (f"{LOOK}\n{LOOK}", ["ls", "ls"]),
    ],
)
def test_a_tag_that_is_spoken_of_is_a_word(text: str, found: list[str]) -> None:
    assert blocks(text) == found


def test_lines_end_as_all_of_them_do() -> None:
    assert blocks(block("cd a\nls").replace("\n", "\r\n")) == ["cd a\nls"]
    assert blocks(block("printf 'a\r\n'")) == ["printf 'a\r\n'"]


@given(st.lists(st.sampled_from(["<think>", "</think>", "x", "```", "so.</think>", "[think]"]), max_size=8), st.sampled_from("\n "))
def test_nothing_thought_before_hides_what_is_said_after(thoughts: list[str], between: str) -> None:
    assert blocks("\n".join(["<think>", *thoughts, f"</think>{between}", *(["</think>"] * thoughts.count("<think>")), LOOK])) == ["ls"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<think>\nHm.\n</think>\n\nLook.", "Look."),
        ("<thinking>a <b></thinking>Look.", "Look."),
        ("Look. <think>Hm.</think>", "Look. <think>Hm.</think>"),
        ("<think>It has no end", "<think>It has no end"),
        ("", ""),
    ],
)
def test_what_is_said_after_a_thought_is_said_aloud(text: str, says: str) -> None:
    assert aloud(text) == says
