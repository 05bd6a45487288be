"""What the verifier of a Harbor task has left decides, and what it prints does not."""

from __future__ import annotations

import pytest

from patchgrad.grading.logs import reader

READ = reader("harbor")


NUMBERS = [
    ("reward.txt", "1\n", "passed"),
    ("reward.txt", " 1.0 ", "passed"),
    ("reward.txt", "0.99", "failed"),
    ("reward.txt", "0", "failed"),
    ("reward.txt", "-3", "failed"),
    ("reward.json", '{"reward": 1.0, "style": 0.2}', "passed"),
    ("reward.json", '{"reward": 0, "style": 1}', "failed"),
    ("reward.json", '{"solved": 1}', "passed"),
    ("reward.json", '{"reward": true}', "passed"),
    ("reward.json", '{"reward": false, "style": 1}', "failed"),
]
NONE = [
    ("reward.txt", ""),
    ("reward.txt", "solved"),
    ("reward.txt", "nan"),
    ("reward.txt", "inf"),
    ("reward.txt", "1\n1"),
    ("reward.json", ""),
    ("reward.json", "{"),
    ("reward.json", "1"),
    ("reward.json", "true"),
    ("reward.json", "null"),
    ("reward.json", "[1]"),
    ("reward.json", "NaN"),
    ("reward.json", '{"reward": Infinity}'),
    ("reward.json", '{"reward": 1, "style": 1e999}'),
    ("reward.json", '{"reward": "1"}'),
    ("reward.json", '{"a": 1, "b": 1}'),
    ("reward.json", "{}"),
    ("reward.json", "[" * 100_000),
]
"""What Harbor itself makes of these is in tests/guests/test_harbor.py."""


@pytest.mark.parametrize(("file", "content", "status"), NUMBERS)
def test_a_reward_of_at_least_1_has_passed(file: str, content: str, status: str) -> None:
    assert READ(f"\n>>>>> Harbor {file}\n{content}") == {"reward": status}


@pytest.mark.parametrize(("file", "content"), [*NONE, ("reward.json", f'{{"reward": 1{"0" * 400}}}')])
def test_what_is_no_finite_number_names_nothing(file: str, content: str) -> None:
    assert READ(f"\n>>>>> Harbor {file}\n{content}") == {}


def test_a_printed_reward_is_none() -> None:
    assert READ("reward: 1\n1\n") == {}
    assert READ("\n>>>>> Harbor reward.txt\n1\n\n>>>>> Harbor reward.txt\n0\n") == {"reward": "failed"}, "the last mark is the command's"
