from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from patchgrad.agents.parsing import blocks
from patchgrad.agents.react import AGAIN
from patchgrad.agents.tools.edits import occurrences
from patchgrad.policies.embedded import ChatTokenizer
from patchgrad.recipes.warmup import DemonstratorOptions
from patchgrad.runs.demonstrations.demonstrator import Demonstrator
from patchgrad.runs.demonstrations.edits import Edit, Edits, line_edit, wrong_edits
from patchgrad.runs.demonstrations.idioms import Blocks
from patchgrad.runs.demonstrations.known_bugs import known
from patchgrad.runs.demonstrations.way import LOOK, reproduction
from patchgrad.tasks.archive import open_archive
from patchgrad.tasks.synthetic import synthetic_tasks
from patchgrad.tasks.synthetic.bugs import SWAPS, bugs_of, call
from patchgrad.tasks.synthetic.build import lines_of
from patchgrad.tasks.synthetic.templates import TEMPLATES
from patchgrad.values import Message, Sampling, Task, ids


def test_every_template_runs_and_answers_its_own_cases() -> None:
    for template in TEMPLATES:
        space: dict[str, object] = {}
        exec(template.source, space)
        outcomes = [call(space[template.name], template.case(random.Random(i))) for i in range(5)]  # type: ignore[arg-type]
        assert sum(outcome.kind == "returns" for outcome in outcomes) >= 3, template.name


def test_no_template_is_on_both_sides_of_the_split() -> None:
    assert len({template.name for template in TEMPLATES}) == len(TEMPLATES)
    held, train = ({t.name for t in TEMPLATES if t.held_out == side} for side in (True, False))
    assert not held & train


def test_no_held_out_bug_line_stands_in_a_training_repository(tmp_path: Path) -> None:
    held = synthetic_tasks(100, 0, True, tmp_path)
    broken = {task.tags["broken_line"].strip() for task in held}

    def telling(apart_from: Sequence[Task]) -> int:
        """How many of a hundred tasks hold a broken line of the held-out ones."""
        made = synthetic_tasks(100, 0, False, tmp_path, apart_from=apart_from)
        return sum(bool(broken & lines_of({name: text.decode() for name, text in open_archive(task.repository).items()})) for task in made)

    assert telling(()) > 20, "they would stand in many if they were let"
    assert telling(held) == 0


def test_variables_are_renamed_in_issue_and_code_alike(tmp_path: Path) -> None:
    for task in synthetic_tasks(40, 2, False, tmp_path):
        files = open_archive(task.repository)
        assert task.tags["broken_line"] in files[task.tags["file"]].decode()
        compile(files[task.tags["file"]], "renamed", "exec")


def test_every_bug_breaks_some_call_and_hangs_in_none() -> None:
    for template in random.Random(0).sample(TEMPLATES, 200):
        for bug in bugs_of(template):
            assert len(bug.failing) >= 2
            assert all(outcome.kind != "hangs" for outcome in bug.actual)


@pytest.mark.parametrize("held_out", [True, False])
def test_the_same_seed_gives_the_same_tasks_and_another_seed_others(tmp_path: Path, held_out: bool) -> None:
    first = synthetic_tasks(12, 3, held_out, tmp_path)
    assert first == synthetic_tasks(12, 3, held_out, tmp_path)
    assert {t.id for t in first} != {t.id for t in synthetic_tasks(12, 4, held_out, tmp_path)}


def test_the_issue_and_the_visible_tree_hold_neither_the_repair_nor_the_hidden_tests(tmp_path: Path) -> None:
    for task in synthetic_tasks(60, 0, True, tmp_path):
        files = open_archive(task.repository)
        visible = files[task.checks.files[0].path].decode()
        hidden = task.checks.files[0].content
        assert task.tags["fixed_line"].strip() not in task.instruction
        assert set(visible.splitlines()) < set(hidden.splitlines())
        assert task.checks.fail_to_pass


def test_an_edit_repairs_the_function_that_a_window_begins_with(tmp_path: Path) -> None:
    for task in synthetic_tasks(60, 1, False, tmp_path):
        source, begins = open_archive(task.repository)[task.tags["file"]].decode(), int(task.tags["begins"])
        rows = source.splitlines(keepends=True)
        line = source.splitlines().index(task.tags["broken_line"], begins - 1) + 1
        edit = line_edit(source, line, task.tags["fixed_line"], begins)
        rows[line - 1] = f"{task.tags['fixed_line']}\n"
        assert applied(source, edit, begins) == "".join(rows)


@pytest.mark.parametrize(
    ("source", "after", "edit"),
    [
        ("if value < low:\n", "if value <= low:", Edit(" < ", " <= ")),
        ("x = 1 < 2\nif value < low:\n", "if value <= low:", Edit(" < ", " <= ", 2)),
        ("x = 1 < 2 < 3 < 4\nif value < low:\n", "if value <= low:", Edit(" < low", " <= low")),
        ("x = 1 < low < low < low\nif value < low:\n", "if value <= low:", Edit(" < low:", " <= low:")),
        ("x <= low\nif value < low:\n", "if value <= low:", Edit(" < ", " <= ")),
        ("x += 1\nx += y + z\n", "x += y * z", Edit(" + ", " * ")),
        ("    if not done:\n", "    if done:", Edit(" if not ", " if ")),
        ("    if done:\n", "    if not done:", Edit(" if ", " if not ")),
        ("for i in range(1, n):\n", "for i in range(2, n):", Edit(" range(1", " range(2")),
    ],
)
def test_an_edit_is_as_short_as_whole_words_allow(source: str, after: str, edit: Edit) -> None:
    assert line_edit(source, len(source.splitlines()), after) == edit
    assert applied(source, edit).splitlines()[-1] == after


def applied(source: str, edit: Edit, window: int = 1) -> str:
    """The source after the edit, as the tool makes it."""
    at = occurrences(source, edit.old, window)[edit.place - 1]
    return source[:at] + edit.new + source[at + len(edit.old) :]


def test_an_edit_is_as_short_as_the_window_allows() -> None:
    source = "x = 1 < 2\nif value < low:\n"
    assert line_edit(source, 2, "if value <= low:", window=2) == Edit(" < ", " <= ")


def test_an_issue_says_where_the_function_begins(tmp_path: Path) -> None:
    for task in synthetic_tasks(30, 0, False, tmp_path, (1, 2, 3)):
        rows = open_archive(task.repository)[task.tags["file"]].decode().splitlines()
        assert rows[int(task.tags["begins"]) - 1].startswith(f"def {task.tags['function']}(")
        assert f"open {PurePosixPath(task.tags['file']).name} {task.tags['begins']}" in task.instruction


def test_an_edit_is_spelled_in_the_same_tokens_as_the_file(tmp_path: Path) -> None:
    tasks = synthetic_tasks(60, 1, False, tmp_path)
    sources = {t.id: open_archive(t.repository)[t.tags["file"]].decode() for t in tasks}
    tokenizer = ChatTokenizer.train(sources.values(), 600)
    for task in tasks:
        for edit in wrong_edits(sources[task.id], task.tags["function"]):
            if edit.old.startswith(" "):  # else it is a whole line, which stands in the file a second time
                word = ordinary(tokenizer, edit.old.rstrip())  # a space behind it is part of the quote
                assert contains(ordinary(tokenizer, edit.command()), word)
                assert contains(ordinary(tokenizer, sources[task.id]), word)


def test_what_an_apprentice_guesses_at_holds_the_repair(tmp_path: Path) -> None:
    for task in synthetic_tasks(200, 0, True, tmp_path, (1,), SWAPS):
        at = known(task)
        line = at.source.splitlines().index(at.broken, at.begins - 1) + 1
        assert line_edit(at.source, line, at.fixed) in wrong_edits(at.source, at.function)


def test_an_apprentice_tests_and_undoes_in_the_turn_of_its_edit_and_submits_when_green(tmp_path: Path) -> None:
    seen = ("", "[File]", ".FF\n(.) $", "The text does not occur in it.", "...\npassed\n(.) $")
    said = plays(replace(FLAWLESS, tests=1.0, retries_when_red=1.0), seen, tmp_path)
    assert [text.split()[0] for text in said] == ["Look.", "Try.", "Try.", "Try.", "Done."]
    assert all("&& pytest && echo passed || git checkout ." in text for text in said[1:4])


def test_no_episode_shows_the_same_words_twice(tmp_path: Path) -> None:
    for task in synthetic_tasks(60, 0, False, tmp_path, (1, 2)):
        edits, said = Edits(known(task), DemonstratorOptions(skill=0.0, misquotes=0.3), random.Random(task.id)), list[tuple[str, str]]()
        edits.window = int(task.tags["begins"])
        while not edits.exhausted:
            said.append(edits.next().words)
        assert len(set(said)) == len(said)


def test_an_apprentice_submits_while_red_or_untested(tmp_path: Path) -> None:
    for habits, shown in (
        (replace(FLAWLESS, tests=1.0, retries_when_red=0.0, persistent=0.0), ".FF"),
        (replace(FLAWLESS, tests=0.0), "3:    x"),
    ):
        said = plays(habits, ("", "[File]", shown), tmp_path)
        assert [text.split()[0] for text in said] == ["Look.", "Try.", "Done."]
        assert ("pytest" in said[1]) == (habits.tests == 1.0)


def test_an_apprentice_submits_in_its_last_turn(tmp_path: Path) -> None:
    said = plays(replace(FLAWLESS, retries_when_red=1.0), ("", "[File]", "1 turn is left.\n.FF\n(.) $"), tmp_path)
    assert [text.split()[0] for text in said] == ["Look.", "Try.", "Done."]


def test_an_apprentice_that_makes_an_edit_again_and_is_told_so_submits_or_tries_another(tmp_path: Path) -> None:
    seen = ("", "[File]", ".FF\n(.) $", f"{AGAIN['brief']}\n.FF\n(.) $")
    again = replace(FLAWLESS, skill=0.0, tests=1.0, retries_when_red=1.0, repeats=1.0)
    stops = plays(replace(again, stops_when_told=1.0), seen, tmp_path)
    assert stops[1] == stops[2]
    assert stops[3].startswith("Done.")
    goes_on = plays(replace(again, stops_when_told=0.0), seen, tmp_path)
    assert len(set(goes_on[1:])) == 2, "not the same a third time"


def test_an_apprentice_may_resign_at_first_sight(tmp_path: Path) -> None:
    said = plays(replace(FLAWLESS, resigns=1.0), ("", "[File]"), tmp_path)
    assert [text.split()[0] for text in said] == ["Look.", "Done."]


def test_an_apprentice_that_slips_in_a_name_finds_no_file_and_opens_the_right_one(tmp_path: Path) -> None:
    task = synthetic_tasks(1, 0, False, tmp_path)[0]
    said = plays(replace(FLAWLESS, slips=1.0), ("", "File x not found."), tmp_path)
    assert all(text.startswith("Look.\n```command\nopen ") for text in said)
    names = {text.split()[3] for text in said}
    assert not names & {PurePosixPath(path).name for path in open_archive(task.repository)}
    assert plays(replace(FLAWLESS, slips=0.0), ("", "File x not found."), tmp_path)[0] == Blocks().turn(LOOK, known(task).place)


def test_practice_is_told_apart_by_its_thought(tmp_path: Path) -> None:
    assert {text.split()[0] for text in plays(FLAWLESS, ("", "[File]", "", ""), tmp_path, practising=True)[1:]} <= {"Next.", "Done."}


def test_a_demonstrator_without_a_place_searches_opens_what_was_found_and_reads_on(tmp_path: Path) -> None:
    task = synthetic_tasks(1, 0, False, tmp_path)[0]
    at = known(task)
    name = task.tags["function"]
    hits = f"./other.py:3:def {name}(x):\n./{at.file}:{at.begins}:def {name}(x):"
    window, rest = f"[File: x (99 lines total)]\n{at.begins}:def {name}(x):", f"[File: x (99 lines total)]\n{at.line}:{at.broken}"
    placeless = replace(task, instruction=task.instruction.rpartition("\n")[0])
    said = plays(FLAWLESS, ("", hits, window, rest, "passed"), tmp_path, task=placeless)
    commands = [text.split("\n")[2] for text in said]
    assert commands[:3] == [f'grep -rn "def {name}\\b" --include=*.py .', f"open {at.file} {at.begins}", "scroll_down"]
    assert commands[3].startswith("replace ")
    assert commands[4] == "submit"


def test_a_demonstrator_may_reproduce_first_and_quote_the_line_that_it_edits(tmp_path: Path) -> None:
    task = synthetic_tasks(1, 0, False, tmp_path)[0]
    said = plays(replace(FLAWLESS, reproduces=1.0, quotes=1.0, skill=1.0), ("", "1 failed", "[File]", "passed"), tmp_path)
    assert [text.split("\n")[2].split()[0] for text in said] == ["pytest", "open", "replace", "submit"]
    assert re.match(rf"[0-9]+:{re.escape(task.tags['broken_line'])}\n", said[2])


@pytest.mark.parametrize(
    ("issue", "script"),
    [
        ("total([1]) gives 2.", "pytest"),
        ("Wrong:\n\n    >>> import shop\n    >>> shop.total([1])\n    2\n", "import shop\nprint(shop.total([1]))"),
        ("Wrong:\n\n    >>> x = 1\n", "pytest"),
        ("Wrong:\n\n    >>> total([\n    ... 1])\n", "pytest"),
    ],
)
def test_what_reproduces_an_issue_is_the_session_that_it_quotes_or_the_tests(issue: str, script: str) -> None:
    assert reproduction(issue) == (script if script == "pytest" else f"python - << 'EOF'\n{script}\nEOF")


FLAWLESS = DemonstratorOptions(slips=0.0, resigns=0.0, malformed=0.0, repeats=0.0)


def plays(
    habits: DemonstratorOptions, observations: Sequence[str], folder: Path, practising: bool = False, task: Task | None = None
) -> list[str]:
    """What a demonstrator says when it sees these, one after the other."""
    tokenizer = ChatTokenizer.train([], 300)
    task = task or synthetic_tasks(1, 0, False, folder)[0]
    demonstrator = Demonstrator(task, habits, 0, tokenizer, 4096, practising)
    said = list[str]()
    for observation in observations:
        demonstrator.encode([Message("user", observation)], None)
        said.append(asyncio.run(demonstrator.act("", ids([len(said)]), Sampling(256, 0))).text)
    return said


def test_an_apprentice_whose_sandbox_broke_says_the_same_again_and_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    tokenizer = ChatTokenizer.train([], 300)
    task, seen = synthetic_tasks(1, 0, False, tmp_path)[0], ("", "[File]", "1 failed", "1 failed", "1 failed")

    def played(broken: bool) -> list[str]:
        demonstrator, said = (
            Demonstrator(task, DemonstratorOptions(malformed=0.2), 3, tokenizer, 4096),
            list[str](),
        )
        for number, observation in enumerate(seen):
            for _ in range(1 + broken):
                demonstrator.encode([Message("user", observation)], None)
                text = asyncio.run(demonstrator.act("", ids([number]), Sampling(256, 0))).text
                if broken:
                    demonstrator.release("")
            demonstrator.encode([Message("user", observation)], None)
            said.append(asyncio.run(demonstrator.act("", ids([number]), Sampling(256, 0))).text)
            assert said[-1] == text
        return said

    assert played(broken=True) == played(broken=False)


def ordinary(tokenizer: ChatTokenizer, text: str) -> list[int]:
    tokens: list[int] = tokenizer.action(text).tolist()
    return tokens[:-1]


def contains(whole: list[int], part: list[int]) -> bool:
    return any(whole[i : i + len(part)] == part for i in range(len(whole)))


def test_an_apprentice_that_lost_the_thread_says_no_single_command(tmp_path: Path) -> None:
    tokenizer, said = ChatTokenizer.train([], 300), list[str]()
    for task in synthetic_tasks(25, 2, False, tmp_path):
        demonstrator = Demonstrator(task, DemonstratorOptions(malformed=1.0), 0, tokenizer, 4096)
        said.append(asyncio.run(demonstrator.act("", ids([]), Sampling(256, 0))).text)
    found = [list(blocks(text)) for text in said]
    assert not any(len(commands) == 1 and commands[0] for commands in found)
    assert {len(commands) for commands in found} == {0, 2}  # no fence, or the same twice
