"""The paper's protocol: section 3.2's two errors, 3.4's prompt line, 3.5's prompts."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.agents import ReactAgent
from patchgrad.agents.tools import View, toolset
from patchgrad.contracts import Extend, Finish
from patchgrad.values import NO_IDS, Action, Call, Malformed, Observation, ToolState, Turn, floats

FULL = ReactAgent(toolset())
BRIEF = ReactAgent(toolset(View(lines=40, brief=True)), prompts="brief")


def turn(call: Call | Malformed, observation: Observation) -> Turn:
    return Turn(NO_IDS, Action(NO_IDS, floats([]), 0, "", "stop"), call, observation, "s", "p")


def block(text: str) -> str:
    return f"Because.\n```command\n{text}\n```"


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (block("ls -l"), Call("shell", "ls -l")),
        (block("open shop/cart.py 3"), Call("open", "shop/cart.py 3")),
        (block("submit"), Call("submit", "")),
        (block("\n  submit \n"), Call("submit", "")),
        (block("shell ls"), Call("shell", "shell ls")),
        (block("opened x"), Call("shell", "opened x")),
        (block("cd a\nls"), Call("shell", "cd a\nls")),
        (block("edit 1:1 << 'EOF'\n  x\nEOF"), Call("edit", "1:1 << 'EOF'\n  x\nEOF")),
        (block("cat > a.md << EOF\n```command\nls\n```\nEOF"), Call("shell", "cat > a.md << EOF\n```command\nls\n```\nEOF")),
        (block("cat << 'EOF' > a.md\n```\nx\n```\nEOF"), Call("shell", "cat << 'EOF' > a.md\n```\nx\n```\nEOF")),
        (block("cat <<-EOF | tee a.md\n```\n\tEOF\nls"), Call("shell", "cat <<-EOF | tee a.md\n```\n\tEOF\nls")),
        (block("cat <<< EOF"), Call("shell", "cat <<< EOF")),
        (block("python -c 'print(1 << n); n'"), Call("shell", "python -c 'print(1 << n); n'")),
        ("```python\nx\n```\n" + block("ls") + "\nand that is all\n```\nx\n```", Call("shell", "ls")),
    ],
)
def test_the_first_word_of_the_one_block_decides(text: str, call: Call) -> None:
    assert FULL.parse(text) == call


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "no command"),
        ("just words", "no command"),
        ("```edit 198:198\nx\n```", "no command"),
        ("```command\nls", "no command"),
        (block(""), "no command"),
        (block("  \n "), "no command"),
        (block("ls") + "\n" + block("pwd"), "several commands"),
        (block("ls") + "\n```command\npwd", "several commands"),
    ],
)
def test_format_errors(text: str, kind: str) -> None:
    for agent in (FULL, BRIEF):
        found = agent.parse(text)
        assert isinstance(found, Malformed)
        assert found.kind == kind
        assert found.message


@given(st.text(alphabet="`command\n<E OF'ls", max_size=60))
def test_parsing_never_raises_and_is_deterministic(text: str) -> None:
    assert FULL.parse(text) == FULL.parse(text)


def test_the_first_prompt_holds_the_papers_sections_in_order() -> None:
    step = FULL.prompt("It is broken.", ())
    assert isinstance(step, Extend)
    system, user = step.messages
    sections = re.findall(r"^# (.+)$", system.content, re.MULTILINE)
    assert sections == ["SPECIAL TOOLS", "ENVIRONMENT RESPONSE", "YOUR RESPONSE", "HANDLING TESTS", "USEFUL ADVICE"]
    assert re.findall(r"^# (.+)$", user.content, re.MULTILINE) == ["ISSUE DESCRIPTION", "ADDITIONAL ADVICE", "CHECKLIST"]
    assert "It is broken." in user.content
    assert user.content.endswith("\n(Current directory: /testbed, current file: none) bash-$")
    for name, tool in FULL.tools.items():
        assert name == "shell" or f"- {tool.usage}" in system.content


def test_the_demonstration_is_extra_and_speaks_the_protocol() -> None:
    step = ReactAgent(toolset(), demonstration=True).prompt("x", ())
    plain = FULL.prompt("x", ())
    assert isinstance(step, Extend)
    assert isinstance(plain, Extend)
    assert step.messages[0].content.startswith(plain.messages[0].content)
    answers = re.findall(r"<agent>\n(.*?)\n</agent>", step.messages[0].content, re.DOTALL)
    calls = [FULL.parse(answer) for answer in answers]
    assert [call.tool for call in calls if isinstance(call, Call)] == ["create", "edit", "shell", "edit", "shell", "submit"]


def test_later_prompts_are_the_observation_above_the_prompt_line() -> None:
    seen = Observation("hello", ToolState("/testbed/shop", "/testbed/shop/cart.py", 3))
    step = FULL.prompt("x", [turn(Call("shell", "ls"), seen)])
    assert isinstance(step, Extend)
    assert step.messages[0].content == "hello\n(Current directory: /testbed/shop, current file: /testbed/shop/cart.py) bash-$"
    step = BRIEF.prompt("x", [turn(Call("shell", "ls"), seen)])
    assert isinstance(step, Extend)
    assert step.messages[0].content == "hello\n(shop cart.py) $"


@pytest.mark.parametrize(
    ("prompts", "words"), [("brief", "This was tried before."), ("full", "You ran this command before in the same state.")]
)
def test_who_wants_it_is_told_where_a_call_was_made_before_in_the_same_state(prompts: Literal["brief", "full"], words: str) -> None:
    telling = replace(FULL if prompts == "full" else BRIEF, repeats=True)
    turns = [turn(Call("shell", text), Observation("red", ToolState())) for text in ("ls", "make", "make", "make")]
    told = [agent.prompt("x", turns[:count]) for agent in (telling, replace(telling, repeats=False)) for count in (2, 3, 4)]
    said = [words in step.messages[0].content for step in told if isinstance(step, Extend)]
    assert said == [False, True, True, False, False, False]
    elsewhere = [*turns[:2], turn(Call("shell", "make"), Observation("red", ToolState("/testbed/shop"))), turns[2]]
    step = telling.prompt("x", elsewhere)
    assert isinstance(step, Extend)
    assert words not in step.messages[0].content, "from another directory it is another call"


def test_brief_is_the_issue_alone() -> None:
    step = BRIEF.prompt("It is broken.\n", ())
    assert isinstance(step, Extend)
    assert [(m.role, m.content) for m in step.messages] == [("user", "It is broken.\n(.) $")]


def test_submit_finishes_unless_it_failed() -> None:
    state = ToolState()
    assert FULL.prompt("x", [turn(Call("submit", ""), Observation("", state))]) == Finish("submitted")
    assert isinstance(FULL.prompt("x", [turn(Call("submit", "now"), Observation("", state, failure="bad arguments"))]), Extend)
