"""Usage and semantics of the paper's tools, section 3.3, and that no argument is ever an exception."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchgrad.agents.tools import View, toolset
from patchgrad.agents.tools.edits import UPDATED
from patchgrad.agents.tools.shell import SPECIAL
from patchgrad.contracts import Result
from patchgrad.values import Observation, Snapshot, ToolState

CART = "def total(items):\n    total = 0\n    for x in items:\n        total = x\n    return total\n"


class Files:
    """A sandbox of a dictionary; `run` answers what it is told to."""

    def __init__(self, **files: str) -> None:
        self.files = {"/testbed/" + name: text.encode() for name, text in files.items()}
        self.result = Result("", 0, "ok")
        self.ran: list[str] = []

    async def read(self, path: str) -> bytes:
        if any(name.startswith(path + "/") for name in self.files):
            raise IsADirectoryError(path)
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    async def write(self, path: str, content: bytes) -> None:
        self.files[path] = content

    async def run(self, command: str, timeout: float | None = None) -> Result:
        self.ran.append(command)
        return self.result

    async def exec(self, argv: Sequence[str], *_: object) -> Result:
        if argv[1] == "update-index":
            return Result("", 0, "ok")
        assert argv[3] == "ls-files", "special tools start no other process"
        tail = argv[-1].removeprefix(":(glob)**/").removeprefix(".")
        found = [name.removeprefix("/testbed/") for name in self.files if name.endswith("/" + tail) or not tail]
        return Result("\n".join(found), 0, "ok")

    async def seal(self, paths: Iterable[str]) -> None:
        raise AssertionError("a tool seals nothing")

    async def snapshot(self) -> Snapshot:
        return Snapshot("s", {})

    async def fork(self) -> Files:
        raise AssertionError("a tool opens no sandbox")

    async def reset(self) -> None:
        raise AssertionError("a tool undoes nobody's work")

    async def close(self) -> None:
        return None

    async def __aenter__(self) -> Files:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


FULL, BRIEF = toolset(), toolset(View(lines=40, brief=True))


def call(box: Files, line: str, state: ToolState | None = None, brief: bool = True, view: View | None = None) -> Observation:
    name, _, arguments = line.partition(" ")
    tools = toolset(view) if view else BRIEF if brief else FULL
    return asyncio.run(tools[name](arguments, box, state or ToolState()))


def cart() -> Files:
    return Files(**{"shop/cart.py": CART})


AT = ToolState(file="/testbed/shop/cart.py")


def text(box: Files, name: str = "shop/cart.py") -> str:
    return box.files["/testbed/" + name].decode()


def test_open_shows_header_and_numbered_lines() -> None:
    seen = call(cart(), "open shop/cart.py")
    assert seen.content.splitlines()[:3] == ["[File: shop/cart.py (5 lines total)]", "1:def total(items):", "2:    total = 0"]
    assert seen.tool_state == AT
    assert call(cart(), "open cart.py", ToolState("/testbed/shop"), brief=False).content.startswith("[File: /testbed/shop/cart.py (5")


def test_a_name_alone_opens_the_only_file_that_ends_so() -> None:
    box = Files(**{"shop/cart.py": CART, "shop/sub/tax.py": "x\n", "other/tax.py": "y\n"})
    assert call(box, "open cart.py 3", ToolState("/testbed/other")).tool_state.file == AT.file
    assert call(box, "open sub/tax.py").tool_state.file == "/testbed/shop/sub/tax.py"
    assert call(box, "open tax.py").content == "tax.py is several files: shop/sub/tax.py, other/tax.py."
    assert call(box, "open zebra.py").content == "File zebra.py not found."


def test_a_name_that_is_misspelt_is_answered_with_the_file_that_is_meant() -> None:
    box = Files(**{"shop/cart.py": CART, "shop/sub/tax.py": "x\n", "other/tax.py": "y\n"})
    assert call(box, "open crat.py 3").content == "File crat.py not found. Did you mean this?\nopen cart.py 3"
    assert call(box, "open other/taxes.py").content.endswith("\nopen other/tax.py"), "a name that two files have does not do"
    assert call(box, "open 'c art.py'").content.endswith("\nopen cart.py")
    assert call(box, "open crat.py", brief=False).content.startswith("File crat.py not found. Did you mean this?\nopen cart.py\nUsage:")


def test_a_line_number_puts_the_window_there_and_full_mode_says_what_is_hidden() -> None:
    box, view = Files(a="".join(f"x{n}\n" for n in range(1, 101))), View(lines=12, overlap=2)
    seen = call(box, "open a 50", view=view)
    assert seen.tool_state.line == 48
    assert "(47 more lines above)" in seen.content
    assert "50:x50" in seen.content
    assert "(41 more lines below)" in seen.content
    down = call(box, "scroll_down", seen.tool_state, view=view)
    assert down.tool_state.line == 58
    assert call(box, "scroll_up", down.tool_state, view=view).tool_state == seen.tool_state
    assert call(box, "goto 100", seen.tool_state, view=view).tool_state.line == 89
    assert call(box, "scroll_up", ToolState(file="/testbed/a", line=3), view=view).tool_state.line == 1
    assert call(box, "open", seen.tool_state, view=view).tool_state == seen.tool_state
    assert call(box, "open 7", seen.tool_state, view=view).tool_state.line == 5


def test_edit_is_inclusive_and_verbatim() -> None:
    box = cart()
    seen = call(box, "edit 4:4 << 'EOF'\n        total += x\nEOF", AT)
    assert text(box) == CART.replace("total = x", "total += x")
    assert seen.content == "4:        total += x"
    call(box, "edit 1:2 'a\nb\nc'", AT)
    assert text(box).splitlines()[:4] == ["a", "b", "c", "    for x in items:"]
    call(box, "edit --file shop/cart.py 1:3", AT)
    assert text(box).splitlines()[0] == "    for x in items:"


def test_edit_appends_after_the_last_line_and_full_mode_repeats_the_view() -> None:
    box = cart()
    seen = call(box, 'edit --file shop/cart.py 6:6 "# end"', brief=False)
    assert text(box) == CART + "# end\n"
    assert seen.content.startswith(UPDATED + "\n[File: /testbed/shop/cart.py (6 lines total)]\n1:def")


def test_carriage_returns_and_a_missing_last_newline_survive() -> None:
    box = Files(a="x\r\ny\r\n", b="x\ny")
    call(box, "edit --file a 2:2 z")
    call(box, "edit --file b 1:1 z")
    assert text(box, "a") == "x\r\nz\r\n"
    assert text(box, "b") == "z\ny"
    call(box, "replace --file a 'x\nz' 'q\nr'")
    assert text(box, "a") == "q\r\nr\r\n"


def test_replace_takes_the_occurrence_whose_number_is_given() -> None:
    box, state = Files(a="v\nv\nv\nv\n"), ToolState(file="/testbed/a", line=3)
    assert "(3 more)" in call(box, "replace v w 2", state).content
    assert text(box, "a") == "v\nv\nv\nw\n"
    call(box, "replace v x 2", state)
    assert text(box, "a") == "x\nv\nv\nw\n", "after the last line of the file comes its first"
    assert call(box, "replace v w 3", state).content == "The text occurs 2 times in a."
    assert call(box, "replace v w 0", state).content == "'0' is not a number of an occurrence: a whole number from 1 on."
    assert call(box, "replace --replace-all v w 1", state).content == "--replace-all replaces every occurrence: leave the number away."
    assert text(box, "a") == "x\nv\nv\nw\n"


def test_replace_takes_the_first_from_the_window_on_then_wraps() -> None:
    box = Files(a="v = 1\nv = 1\nv = 1\n")
    seen = call(box, "replace 'v = 1' 'v = 2'", ToolState(file="/testbed/a", line=2))
    assert text(box, "a") == "v = 1\nv = 2\nv = 1\n"
    assert seen.content.endswith("(2 more)")
    call(box, "replace 'v = 1' 'v = 3'", ToolState(file="/testbed/a", line=3))
    call(box, "replace 'v = 1' 'v = 4'", ToolState(file="/testbed/a", line=3))
    assert text(box, "a") == "v = 4\nv = 2\nv = 3\n"
    assert "Replaced 3" in call(box, "replace --replace-all v w", ToolState(file="/testbed/a"), brief=False).content
    assert text(box, "a") == "w = 4\nw = 2\nw = 3\n"


def test_create_opens_a_new_file_and_refuses_an_old_one() -> None:
    box = cart()
    seen = call(box, "create shop/new.py")
    assert (seen.content, seen.tool_state.file) == ("[File: shop/new.py (1 lines total)]\n1:", "/testbed/shop/new.py")
    call(box, "edit 1:1 << EOF\nimport os\nEOF", seen.tool_state)
    assert text(box, "shop/new.py") == "import os\n"
    assert call(box, "create shop/cart.py").failure == "bad arguments"
    assert call(box, "create shop").failure == "bad arguments"


def test_search_file_lists_lines() -> None:
    assert call(cart(), "search_file 'total = ' shop/cart.py").content == "2:    total = 0\n4:        total = x"
    assert "Found 2 matching lines" in call(cart(), "search_file 'total = '", AT, brief=False).content
    assert call(cart(), "search_file nothing", AT).failure is None
    assert call(Files(a="x\n" * 101), "search_file x a").failure == "bad arguments"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("edit 3:5 'open quote", "quot"),
        ("edit", "line range"),
        ("edit a:b x", "line range"),
        ("edit 0:2 x", "from 1 on"),
        ("edit 5:3 x", "ends before"),
        ("edit 4:9 x", "past the end"),
        ("edit 1:1 a b", "Unexpected"),
        ("open shop/cart.py && ls", "Unexpected"),
        ("edit 1:1 << 'EOF'\nx", "not closed"),
        ("edit --file", "needs a value"),
        ("edit --file nowhere.py 1:1 x", "not found"),
        ("edit --file shop 1:1 x", "directory"),
        ("edit 1:1 a << EOF\nb\nEOF", "not both"),
        ("replace 'never there' x", "does not occur"),
        ("replace x", "two quoted"),
        ("replace '' x", "empty"),
        ("replace total total", "same"),
        ("open nowhere.py", "not found"),
        ("open shop/cart.py 99", "past the end"),
        ("goto", "line number"),
        ("goto x", "line number"),
        ("scroll_down 5", "Unexpected"),
        ("search_file", "search for"),
        ("create", "file name"),
        ("submit now", "Unexpected"),
    ],
)
def test_bad_arguments_are_an_observation_that_helps(line: str, says: str) -> None:
    box = cart()
    seen = call(box, line, AT, brief=False)
    assert seen.failure == "bad arguments"
    assert says in seen.content
    assert "Usage: " + line.split()[0] in seen.content
    assert seen.tool_state == AT
    assert text(box) == CART


def test_a_change_may_go_on_in_the_shell_in_the_same_turn() -> None:
    box = cart()
    box.result = Result("1 failed\n", 1, "ok", directory="/testbed/shop")
    seen = call(box, "replace 'total = 0' 'total = \"a && b\"' && pytest || git restore .", AT)
    assert seen.content == "1 failed"
    assert (seen.exit_code, seen.tool_state.directory, seen.tool_state.file) == (1, "/testbed/shop", AT.file)
    assert box.ran == ["pytest || git restore ."]


def test_a_change_that_goes_on_is_shown_unless_the_view_is_brief() -> None:
    box = cart()
    box.result = Result("1 failed\n", 1, "ok")
    seen = call(box, "replace 'total = 0' 'total = 1' && pytest", AT, brief=False)
    assert "2:    total = 1" in seen.content
    assert seen.content.endswith("1 failed")


def test_a_change_that_was_not_made_does_not_go_on() -> None:
    box = cart()
    assert call(box, "replace 'never there' x && rm -rf shop", AT).failure == "bad arguments"
    assert box.ran == []


def test_a_heredoc_keeps_its_ampersands() -> None:
    box = cart()
    call(box, "edit 1:1 << 'EOF'\na && b\nEOF", AT)
    assert (text(box).splitlines()[0], box.ran) == ("a && b", [])


def test_nothing_open_is_told() -> None:
    for line in ("goto 1", "scroll_down", "edit 1:1 x", "replace a b", "search_file a", "open"):
        assert "No file is open" in call(cart(), line).content


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SPECIAL), st.text(alphabet="ab1:'\" \n<-EOF\\$", max_size=24))
def test_no_argument_text_raises(name: str, arguments: str) -> None:
    seen = asyncio.run(BRIEF[name](arguments, cart(), AT))
    assert seen.failure in (None, "bad arguments")


def test_long_output_is_cut_with_a_mark() -> None:
    seen = call(Files(a="y" * 500), "open a", view=View(limit=60))
    assert seen.clipped
    assert "characters left out" in seen.content
    assert seen.content.endswith("y" * 30)


def test_the_shell_carries_directory_exit_code_and_deadline() -> None:
    box = Files()
    box.result = Result("hi\n", 3, "ok", directory="/testbed/shop")
    seen = call(box, "shell cd shop", AT)
    assert (seen.content, seen.exit_code, seen.tool_state.directory, seen.tool_state.file) == ("hi", 3, "/testbed/shop", AT.file)
    box.result = Result("", None, "timeout", seconds=20)
    assert call(box, "shell sleep 99").failure == "timeout"
    box.result = Result("", None, "died")
    assert call(box, "shell exit").failure == "died"
    box.result = Result("Killed: out of memory\n", None, "out of memory")
    assert call(box, "shell hog").failure == "out of memory"
    box.result = Result("x", 0, "ok", truncated=True)
    assert call(box, "shell yes").clipped
    box.result = Result("bash: line 1: open: command not found\n", 127, "ok")
    assert "special tool" in call(box, "shell cd a && open b").content
    box.result = Result("bash: line 1: opena.py: command not found\n", 127, "ok")
    assert call(box, "shell opena.py").failure == "unknown tool"
    box.result = Result("bash: line 1: x: command not found\n", 127, "died")
    assert call(box, "shell x; exit").failure == "died"
    box.result = Result("bash: line 1: x: command not found\n", 0, "ok")
    assert call(box, "shell x; true").failure is None, "it is the last command that an answer is of"
    box.result = Result("", 0, "ok")
    assert "did not produce any output" in call(box, "shell true", brief=False).content
    assert call(box, "shell true").content == ""


def test_only_tools_that_look_say_so() -> None:
    looks = {name for name, tool in FULL.items() if getattr(tool, "reads_only", False)}
    assert looks == {"open", "goto", "scroll_down", "scroll_up", "search_file", "submit"}
