"""A driver whose time is a script: each row is an epoch, and at the end of each moment in between a tick settles it."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from cutover.definition.model.pipeline import Lateness
from cutover.definition.windows.window_fn import FOREVER
from cutover.errors import LakeError
from cutover.panes.event_schedule import Comes, Ends, schedule_events
from cutover.panes.model import InputRow, Setting
from cutover.records.watermark import Observation, WatermarkState
from cutover.streaming.microbatch.engine import MicrobatchEngine
from cutover.streaming.process.context import DriverContext
from cutover.streaming.sink.committer import Committer
from cutover.streaming.source.start_offsets import StartOffsets
from cutover.timestamps import from_micros

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Script:
    """Clock and time policy of a scenario. Time advances only with the stream."""

    def __init__(self, setting: Setting) -> None:
        self.closes = setting.allowed_lateness is not None
        self.settles = self.epoch_ends = False
        self._at, self._watermark = 0, -FOREVER

    def now(self) -> datetime:
        """Return the scenario's processing time."""
        return from_micros(self._at)

    def monotonic(self) -> float:
        """In seconds, of the script's clock."""
        return self._at / 1_000_000

    def advance(self, state: WatermarkState, observed: Observation, lateness: Lateness) -> WatermarkState:  # noqa: ARG002 -- every policy's signature
        """Return the scenario's watermark; no partition is ever idle."""
        return WatermarkState(watermark=None if self._watermark == -FOREVER else self._watermark)

    def append_row(self, row: InputRow) -> None:
        """Move to a row's arrival: more of its moment may follow."""
        self._at, self.settles, self.epoch_ends = row.processing_time, False, False

    def end(self, moment: Ends) -> bool:
        """Move to the end of a moment; return whether more changes by it than the time."""
        changes = moment.epoch_ends or moment.watermark != self._watermark
        self._at, self._watermark = moment.at, moment.watermark
        self.settles, self.epoch_ends = True, moment.epoch_ends
        return changes


class ScriptedStream(MicrobatchEngine):
    """A stream of which each epoch with data is one row, in the order of the scenario."""

    def __init__(
        self, context: DriverContext, committer: Committer, beginning: StartOffsets, *, setting: Setting, script: Script
    ) -> None:
        super().__init__(context, committer, beginning)
        self._script = script
        self._course: Iterator[Comes | Ends] = schedule_events(setting, self._due)
        self._coming: InputRow | None = None  # its turn has come, and no epoch holds it yet
        self.limit = {0: len(setting.rows)}

    def poll(self) -> None:
        """Read the log's ends; only the script advances time."""
        with self.lock:
            self.continuity.note_ends(self.continuity.read_ends(dict(self.position)), prove=False)

    def play_out(self) -> None:
        """Run the remaining steps once all rows are in."""
        with self.lock:
            if self._next_row() is not None:
                msg = f"Scenario: expected all {self.limit} rows in epochs, got {dict(self.position)}."
                raise LakeError(msg)

    def _process_epoch(self, batch: "DataFrame", number: int) -> int:
        span = self._plan(number).span
        if span > 1:
            msg = f"Scenario: expected one row an epoch, Spark read {span}."
            raise LakeError(msg)
        if not span:
            return 0
        self._coming = self._coming or self._next_row()
        if self._coming is None:
            msg = "Scenario: expected as many rows as it has, got one more."
            raise LakeError(msg)
        self._script.append_row(self._coming)
        continues = super()._process_epoch(batch, number)
        self._coming = None if continues else self._coming
        return continues

    def _next_row(self) -> InputRow | None:
        """Let moments end until a row comes, and return it; None after everything."""
        for happening in self._course:
            if isinstance(happening, Comes):
                return happening.row
            due = self._due()
            if self._script.end(happening) or (due is not None and due <= happening.at):
                self.tick(self._advance({}, self.position))
        return None

    def _due(self) -> int | None:
        return self.state.due
