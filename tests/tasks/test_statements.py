"""What an agent is told: the symptom, from what was seen to fail, and nothing of the repair or of the hidden tests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.tasks.running import Failure
from patchgrad.tasks.statements import LEVELS, Secrets, leaks, rank, secrets_of, statements
from patchgrad.tasks.statements.symptom import names_the_bug, summary

SHOWN = {"imports": "from shapes import area", "code": "area(2, 3)", "actual": "returns 5", "expected": "6"}
FAILURE = Failure("AssertionError", "", "", SHOWN)
PLACE = ("src/shapes.py", "area", 3)


def told(failures: list[Failure], secrets: Secrets | None = None, implement: bool = False) -> dict[str, str]:
    found = statements("shapes", [PLACE], ["docs/shapes.py", "src/shapes.py"], ["src"], failures, secrets or Secrets(), implement)
    assert isinstance(found, dict)
    return found


def test_a_statement_reads_like_a_report() -> None:
    found = told([FAILURE])
    assert tuple(found) == LEVELS
    assert found["report"].startswith("In shapes this goes wrong:\n")
    assert ">>> from shapes import area\n    >>> area(2, 3)\n    5\n\nExpected: `6`" in found["report"]
    assert "The fault is in `area()` in `src/shapes.py`." in found["located"]
    assert 'PYTHONPATH=src python -c "from shapes import area; print(repr(area(2, 3)))"' in found["located"]
    assert found["brief"] == "area(2, 3) gives 5 instead of 6.\nopen src/shapes.py 3\n", "docs/shapes.py ends alike"
    assert "src/shapes.py" not in found["report"]


def test_an_exception_is_told_as_one() -> None:
    found = told([Failure("ValueError", "no", "", SHOWN | {"actual": "raises ValueError: no", "expected": ""})])
    assert "Traceback (most recent call last):\n    ValueError: no\n\nNo exception is expected." in found["report"]
    assert found["brief"].startswith("area(2, 3) raises ValueError: no.\n")


def test_without_a_call_the_failing_statement_and_its_message_are_told() -> None:
    found = told([Failure("AssertionError", "assert 5 == 6\n +  where 5 = f()\n <X at 0x7f>", "assert f() == 6")])
    assert "    assert f() == 6\n\nfails in some case with\n\n    AssertionError: assert 5 == 6\n" in found["report"]
    assert "where" not in found["report"]
    assert "0x7f" not in found["report"]


def test_a_script_which_was_tried_alone_fails_without_a_condition_and_what_is_cut_shows_it() -> None:
    found = told([Failure("ValueError", "no", "", {}, "from shapes import area\narea(2, 3)")])
    assert "    area(2, 3)\n\nfails with\n\n    ValueError: no" in found["report"]
    assert found["brief"].startswith("area(2, 3) fails.\n")
    long = told([Failure("ValueError", "no", "", SHOWN | {"code": f"area({', '.join(map(str, range(40)))})"})])
    assert long["brief"].startswith("area(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15... gives 5")


def test_two_faults_are_told_with_both_places() -> None:
    other = Failure("KeyError", "'x'", "look('x')")
    places = [PLACE, ("src/words.py", "look", 9)]
    found = statements("shapes", places, [], [], [FAILURE, other], Secrets())
    assert isinstance(found, dict)
    assert found["report"].index("area(2, 3)") < found["report"].index("and this too:") < found["report"].index("look('x')")
    assert "The fault is in `area()` in `src/shapes.py`. Another fault is in `look()` in `src/words.py`." in found["located"]


def test_a_missing_body_is_told_as_one() -> None:
    found = told([Failure("NotImplementedError", "", "area(2, 3)")], implement=True)
    assert found["report"].startswith("In shapes this is not implemented:")


@pytest.mark.parametrize(
    ("failures", "secrets", "reason"),
    [
        ([], Secrets(), "says nothing"),
        ([Failure("AssertionError", "", "assert f()")], Secrets(), "says nothing"),
        ([FAILURE, Failure("AssertionError", "", "assert f()")], Secrets(), "says nothing"),
        ([Failure("ValueError", "bad", "value = width * height")], Secrets(repair=("value = width * height",)), "leaks"),
        ([Failure("ValueError", "bad", "value  =  width *\n height")], Secrets(repair=("value = width * height",)), "leaks"),
        ([Failure("ValueError", "see test_area", "f()")], Secrets(names=("test_area",)), "leaks"),
    ],
)
def test_a_statement_that_would_be_no_use_or_a_gift_is_refused(failures: list[Failure], secrets: Secrets, reason: str) -> None:
    assert statements("shapes", [PLACE], [], ["src"], failures, secrets) == reason


def test_python_itself_may_name_the_bug() -> None:
    assert names_the_bug([FAILURE, Failure("NameError", "name 'x' is not defined")])
    assert not names_the_bug([FAILURE, Failure("KeyError", "'x'")])


def test_a_call_is_told_before_a_message_and_the_shortest_first() -> None:
    longer = Failure("AssertionError", "", "", SHOWN | {"code": "area(20, 30)"})
    message, bare = Failure("KeyError", "'x'", "f()"), Failure("AssertionError", "", "f()")
    nothing, script = Failure("AssertionError", "assert 1 == 2", ""), Failure("AssertionError", "", script="from a import f\nassert f()")
    assert sorted([nothing, bare, script, message, longer, FAILURE], key=rank) == [FAILURE, longer, script, message, bare, nothing]


def test_what_differs_in_every_run_is_not_told() -> None:
    found = told([Failure("TypeError", "no\n<Mock name='x' id='139781306191056'> is odd\n<X at 0x7f>", "f()")])
    assert "TypeError: no\n" in found["report"]
    assert "1397" not in found["report"]
    assert "1397" not in summary(["t::a"], {"t::a": Failure("TypeError", "<Mock name='x' id='139781306191056'> is odd")})


def test_the_secrets_are_lines_of_the_repair_names_of_tests_and_of_what_made_the_bug() -> None:
    repair = "--- a/a.py\n+++ b/a.py\n-    return totl\n+    return total\n+else:\n+    # a comment of some length\n"
    found = secrets_of(repair, ["tests/test_a.py::TestIt::test_sum[1]"], made_by=["op_swap"])
    assert found.repair == ("return total",)
    assert found.names == ("TestIt", "op_swap", "test_a.py", "test_sum")


def test_one_line_of_a_hidden_test_may_be_told_and_two_that_follow_each_other_may_not() -> None:
    hidden = "+++ b/t.py\n+def test_sum():\n+    total = Total()\n+    assert total.sum == 0\n"
    secrets = Secrets(bodies=secrets_of("", [], hidden).bodies)
    assert leaks("    assert total.sum == 0\nfails.", secrets) == []
    assert leaks("    total = Total()\n    assert total.sum == 0\nfails.", secrets) == ["lines of a hidden test"]


WORDS = st.text("ab_ .(\n", max_size=30)


@given(before=WORDS, after=WORDS, line=st.text("abcdef_ =+()", min_size=7, max_size=20).map(str.strip).filter(lambda text: len(text) > 6))
def test_a_line_of_the_repair_is_found_wherever_it_stands(before: str, after: str, line: str) -> None:
    secrets = secrets_of(f"+    {line}\n", [])
    assert leaks(f"{before} \n   {line.replace(' ', '  ')} \n{after}", secrets)


@given(st.text(), st.text("xyz ", max_size=40))
def test_a_statement_without_a_secret_is_clean(hidden: str, statement: str) -> None:
    assert not leaks(statement, secrets_of("+    return total\n", ["t.py::test_sum"], made_by=["op_swap"]))
    assert not leaks("", secrets_of("+" + hidden, []))
