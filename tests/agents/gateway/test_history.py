"""What a program tells again extends the stream where it is what was said, and begins another where it is not."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.agents.gateway.calls import written
from patchgrad.agents.gateway.history import ChatRequest, History, Said
from patchgrad.contracts import Extend, Restart
from patchgrad.values import Message

SYSTEM, USER = Said("system", "Be short."), Said("user", "Mend it.")
LOOKED = Said("assistant", "Look.", (("bash", '{"command": "ls"}'),))
RESULT = Said("tool", "a.py", call="call_0")
TOOL = '{"type": "function", "function": {"name": "bash"}}'


def begun(*said: Said, answered: Said = LOOKED) -> History:
    history = History(tells_tools=False)
    assert history.step(ChatRequest(said or (SYSTEM, USER))) == Extend((Message("system", "Be short."), Message("user", "Mend it.")))
    history.answered(answered)
    return history


def test_the_result_of_a_call_extends_the_stream() -> None:
    step = begun().step(ChatRequest((SYSTEM, USER, LOOKED, RESULT)))
    assert step == Extend((Message("user", "<tool_response>\na.py\n</tool_response>"),))


def test_results_that_come_together_are_one_message() -> None:
    step = begun().step(ChatRequest((SYSTEM, USER, LOOKED, RESULT, Said("tool", "b.py"))))
    assert step == Extend((Message("user", "<tool_response>\na.py\n</tool_response>\n<tool_response>\nb.py\n</tool_response>"),))


@pytest.mark.parametrize(
    "said",
    [
        (Said("system", "Be long."), USER, LOOKED, RESULT),
        (SYSTEM, USER, Said("assistant", "Look!", LOOKED.calls), RESULT),
        (SYSTEM, USER, RESULT),
        (SYSTEM, Said("user", "In short: a.py was seen.")),
        (SYSTEM, USER),
        (SYSTEM, USER, LOOKED),
        (SYSTEM, USER, LOOKED, RESULT, Said("assistant", "Nobody said this."), USER),
    ],
    ids=["another system", "another answer", "an answer left out", "a summary", "asked again", "nothing new", "an answer made up"],
)
def test_another_story_begins_another_stream_with_all_of_it(said: tuple[Said, ...]) -> None:
    step = begun().step(ChatRequest(said))
    assert isinstance(step, Restart)
    told = "\n".join(message.content for message in step.messages)
    assert all(one.content in told for one in said)


def test_other_tools_begin_another_stream() -> None:
    assert isinstance(begun().step(ChatRequest((SYSTEM, USER, LOOKED, RESULT), (TOOL,))), Restart)


def test_a_stream_that_began_anew_is_extended_from_there() -> None:
    history = begun()
    assert isinstance(history.step(ChatRequest((SYSTEM, USER, RESULT))), Restart)
    history.answered(LOOKED)
    assert isinstance(history.step(ChatRequest((SYSTEM, USER, RESULT, LOOKED, RESULT))), Extend)


def test_who_goes_back_to_an_earlier_answer_goes_on_after_its_stream() -> None:
    history, second, end = begun(), Said("assistant", "Done."), Said("user", "And now?")
    assert isinstance(history.step(ChatRequest((SYSTEM, USER, LOOKED, RESULT))), Extend)
    history.answered(second)
    back = history.step(ChatRequest((SYSTEM, USER, LOOKED, Said("user", "Stop."))))
    assert back == Restart((Message("user", "Stop."),), after=0)
    history.answered(second)
    forth = history.step(ChatRequest((SYSTEM, USER, LOOKED, RESULT, second, end)))
    assert forth == Restart((Message("user", "And now?"),), after=1)


def test_an_answer_that_is_told_without_its_thought_is_the_same_and_one_with_another_is_not() -> None:
    thought = Said("assistant", "<think>\nHm.\n</think>\n\nLook.", LOOKED.calls)
    assert isinstance(begun(answered=thought).step(ChatRequest((SYSTEM, USER, LOOKED, RESULT))), Extend)
    other = Said("assistant", "<think>\nSo.\n</think>\n\nLook.", LOOKED.calls)
    assert begun(answered=thought).step(ChatRequest((SYSTEM, USER, other, RESULT))) == Restart(
        (
            Message("system", "Be short."),
            Message("user", "Mend it."),
            Message("assistant", written(other.content, other.calls)),
            Message("user", "<tool_response>\na.py\n</tool_response>"),
        )
    )


def test_of_two_answers_whose_thoughts_alone_differ_the_one_that_is_repeated_goes_on() -> None:
    first, second = (Said("assistant", f"<think>{word}</think>Look.") for word in ("Hm", "So"))
    history = begun(answered=first)
    history.step(ChatRequest((SYSTEM, USER)))
    history.answered(second)
    assert history.step(ChatRequest((SYSTEM, USER, first, USER))) == Restart((Message("user", "Mend it."),), after=0)
    assert isinstance(history.step(ChatRequest((SYSTEM, USER, second, USER))), Extend)


def test_words_of_the_system_amid_a_history_stay_where_they_are() -> None:
    step = begun().step(ChatRequest((SYSTEM, USER, LOOKED, RESULT, Said("system", "Hurry."))))
    assert step.messages == (Message("user", "<tool_response>\na.py\n</tool_response>\nHurry."),)


@given(st.lists(st.builds(Said, st.sampled_from(["system", "user", "assistant", "tool"]), st.text(max_size=3)), min_size=1))
def test_the_user_and_the_assistant_speak_in_turn(said: list[Said]) -> None:
    first = History().step(ChatRequest(tuple(said)))
    roles = [message.role for message in first.messages if message.role != "system"]
    assert all(one != two for one, two in pairwise(roles))
    assert all(message.role != "system" for message in first.messages[1:])


def test_tools_are_told_with_the_system() -> None:
    step = History().step(ChatRequest((USER,), (TOOL,)))
    assert [message.role for message in step.messages] == ["system", "user"]
    assert "<tools>" in step.messages[0].content


def test_an_empty_system_is_no_message() -> None:
    assert History().step(ChatRequest((Said("system", ""), USER))) == Extend((Message("user", "Mend it."),))
