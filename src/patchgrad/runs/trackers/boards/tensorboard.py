"""TensorBoard's event files below the run, written by tensorboardX: `tensorboard --logdir RUN`."""

from __future__ import annotations

from collections.abc import Mapping

from tensorboardX import SummaryWriter
from tensorboardX.proto.summary_pb2 import Summary

from patchgrad.runs.trackers.boards.board import Subject


class TensorBoard:
    """A curve for each figure, over iterations, and attempts as text."""

    def __init__(self, folder: str) -> None:
        self._writer = SummaryWriter(folder, flush_secs=5)

    def figures(self, step: int, figures: Mapping[str, float]) -> None:
        told = [Summary.Value(tag=name, simple_value=value) for name, value in figures.items()]
        self._writer.file_writer.add_summary(Summary(value=told), step)  # `add_scalar` would make `pass_1` of `pass@1`
        self._writer.flush()

    def text(self, step: int, name: str, text: str) -> None:
        self._writer.add_text(name, "\n".join(f"    {line}" for line in text.splitlines()), step)  # as Markdown: a block that is quoted

    def close(self) -> None:
        self._writer.close()


def opened(subject: Subject, folder: str = "") -> TensorBoard:
    """In `folder`, or below the run."""
    made = TensorBoard(folder or str(subject.folder / "trackers" / "tensorboard"))
    made.text(0, "recipe", "\n".join(f"{key} = {value}" for key, value in subject.settings().items()))
    return made
