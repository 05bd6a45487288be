"""What was asked before is not asked again: the same call, in the same state of the same sandbox, has the same answer.

    (environment, files, tool state, call) -> (observation, files after it)
    (environment, first commit, files)     -> submission

The environment is what a sandbox is made of (`Task.environment_digest`); tasks with other words share it. Attempts at a task do much the
same: most of their calls were made by another one before, in files of the same content.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")
MOST = 10_000
ROOM = 1 << 30
_LARGEST = 16  # an answer that takes more than a sixteenth of the room is its asker's alone: one attempt does not push out all others


class ToolCache:
    """The last `most` answers by what was asked, as long as the files in them take no more than `room` bytes.

    `asked` counts questions, `known` those whose answer was there or under way.

    With `timeouts` it is an answer, too, that a command's time ran out: where limits count work, it would run out again.
    """

    def __init__(self, most: int = MOST, timeouts: bool = False, room: int = ROOM) -> None:
        self._most, self._room, self.timeouts = most, room, timeouts
        self._settings = (most, timeouts, room)
        self._sizes: dict[tuple[Any, ...], int] = {}
        self._held = 0  # their sum
        self._kept: OrderedDict[tuple[Any, ...], asyncio.Future[Any]] = OrderedDict()
        self.asked = self.known = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """On another machine it is one that knows nothing yet."""
        return ToolCache, self._settings

    def __contains__(self, question: tuple[Any, ...]) -> bool:
        """Is its answer known, or being asked for?"""
        return question in self._kept

    async def get(
        self, question: tuple[Any, ...], ask: Callable[[], Awaitable[T]], keep: Callable[[T], bool], size: Callable[[T], int] = lambda _: 0
    ) -> tuple[T, bool]:
        """The answer, asked for unless it is known, and whether it was; who asks what another is asking waits for that one.

        An answer that is not to be kept, and an error, is its asker's alone: whoever waited for it asks too, and for himself. `size` says
        how many bytes of files an answer holds.
        """
        self.asked += 1
        if (found := self._kept.get(question)) is not None:
            self._kept.move_to_end(question)
            if not found.done():
                await asyncio.wait([found])
            if found.cancelled():
                return await ask(), False
            self.known += 1
            return found.result(), True
        under_way = self._kept[question] = asyncio.get_running_loop().create_future()
        try:
            answer = await ask()
            held = size(answer)
            if keep(answer) and held <= self._room // _LARGEST:
                under_way.set_result(answer)
                self._sizes[question] = held
                self._held += held
        finally:
            if not under_way.done():
                under_way.cancel()
                del self._kept[question]
        self._shorten()
        return answer, False

    def _shorten(self) -> None:
        """The longest unasked go first, but for those that are under way."""
        while self._kept and (len(self._kept) > self._most or self._held > self._room) and next(iter(self._kept.values())).done():
            question, _ = self._kept.popitem(last=False)
            self._held -= self._sizes.pop(question, 0)
