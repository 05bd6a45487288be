"""Which commands leave bash as it was, and what of its state is told."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchgrad.sandboxes.linux.shell_state import ASK, SECTIONS, ShellState, answer, beginning, settled

BASH = ("bash", "--norc", "--noprofile", "-c")


def told(*commands: str) -> list[ShellState]:
    """The state of one bash at its start and after each command."""
    script = "\n".join((ASK, *(f"eval {shlex.quote(command)} >/dev/null 2>&1\n{ASK}" for command in commands)))
    said = subprocess.run([*BASH, script], capture_output=True, check=True).stdout.split(b"\0")[:-1]
    return [ShellState.read(said[at : at + SECTIONS]) for at in range(0, len(said), SECTIONS)]


@pytest.mark.parametrize(
    "command",
    ["ls", "grep -n 'a b' *.py | head -3", "pytest -q 2>&1 | tail -5", "git diff && git status", "sed -i s/a/b/ a.py > log", "ls\nls -l"],
)
def test_a_call_of_programs_leaves_the_shell_as_it_was(command: str) -> None:
    assert settled(command)


@pytest.mark.parametrize(
    "command",
    [
        "cd src",
        "x=1",
        "x=1 ls",
        "ls; cd x",
        "ls && export X=1",
        "echo ${x:=1}",
        "ls &",
        "f() { :; }",
        "ls | (cd x)",
        ". a.sh",
        "ls > a\nset -e",
        "read x < a",
        'echo "$((x=1))"',
        "cat <<E\nE",
    ],
)
def test_bash_is_asked_after_what_may_change_it(command: str) -> None:
    assert not settled(command)


@pytest.mark.parametrize("command", ["cd /; cd /tmp", "x=1; export Y=2", "set -o pipefail", "umask 077", "set -- a b", "PATH=/no:$PATH"])
def test_in_a_shell_with_other_variables_a_word_calls_what_it_did(command: str) -> None:
    fresh, then = told(command)
    assert then.since(fresh)
    assert then.calls_as(fresh)


@pytest.mark.parametrize("command", ["ls() { x=1; }", "alias ls='cd /'", "trap 'x=1' DEBUG", "command_not_found_handle() { x=1; }"])
def test_in_a_shell_with_functions_aliases_or_traps_a_word_may_call_something_else(command: str) -> None:
    fresh, then = told(command)
    assert not then.calls_as(fresh)
    assert not ShellState.read([b"cut off", *[b""] * (SECTIONS - 1)]).calls_as(fresh)


WORDS = st.sampled_from(
    [
        "ls",
        "cd",
        "x=1",
        "'a b'",
        '"c"',
        "|",
        "&&",
        ";",
        "\n",
        "true",
        "set",
        "-f",
        "export",
        "y",
        "unset",
        "PATH",
        "shift",
        "2>&1",
        "> /dev/null",
        ":",
        "alias",
        "a=b",
    ]
)


@settings(max_examples=40, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=6).map(" ".join))
def test_a_command_that_is_taken_for_settled_changes_nothing(command: str) -> None:
    if settled(command):
        fresh, after = told(command)
        assert after.since(fresh) == ""


def test_an_answer_is_found_after_what_others_have_written() -> None:
    assert answer(b"x\0y\0", b"7") is None
    assert answer(b"noise\x007\x000\0/testbed\0", b"7") == [b"0", b"/testbed"]
    assert answer(b"a\0b\0c\0d\0e\0f\x007\x000\0/tmp\0", b"7") == [b"0", b"/tmp", b"a", b"b", b"c", b"d", b"e", b"f"]


def test_what_a_shell_begins_with_is_read_once_all_of_it_is_there() -> None:
    said = b'declare -- a="1"\n\0f ()\n\0\0\x000022\n\0\0'
    assert [beginning(said[:cut]) for cut in range(len(said))] == [None] * len(said)
    for rest in (b"", b'declare -- a="2"\n\0\0\0'):
        assert beginning(said + rest) == ShellState({"a": 'declare -- a="1"\n'}, ("f ()\n", "", "", "0022\n", ""))


def test_a_value_that_goes_on_in_the_next_line_is_of_its_variable() -> None:
    state = ShellState.read([b'declare -- a="1\n2"\ndeclare -- b="3"\n', *[b""] * (SECTIONS - 1)])
    assert state.variables == {"a": 'declare -- a="1\n2"\n', "b": 'declare -- b="3"\n'}
