"""A plan as a value: what a run will take of a machine."""

from __future__ import annotations

from dataclasses import dataclass

MARGIN = 0.9  # of what is free, so much may be planned with


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes, and what they are for."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What a run takes. The `parts` are those of the `phase` that takes the most memory; `room` are the bytes that are free.

    So many `sandboxes` may take so many bytes each beside that, by their limit. The run's folder comes to at most `disk`. An optimiser that
    is in host memory while a GPU computes takes `host` there, of which `beside` is free.
    """

    phase: str
    parts: tuple[Part, ...]
    room: int
    sandboxes: int
    sandbox: int
    disk: int
    host: int = 0
    beside: int = 0

    @property
    def peak(self) -> int:
        return sum(part.bytes for part in self.parts)

    @property
    def fits(self) -> bool:
        return self.peak <= MARGIN * self.room and self.host <= MARGIN * self.beside


def size(count: float) -> str:
    """Bytes for people: `size(3_200_000_000)` -> `3.2 GB`."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
