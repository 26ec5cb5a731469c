"""A stream's panes without Spark and Kafka: rows classified in plain Python, a real table, and starts in between."""

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from cutover.definition import Pipeline
from cutover.definition.compile.fingerprint import panes_fingerprint
from cutover.definition.windows.window_fn import FOREVER
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import epoch_log_schema, partial_schema
from cutover.panes.model import Comes, Ends, InputRow, Outcome, Setting, is_too_late, schedule_events
from cutover.streaming.panes import rows as pane_rows
from cutover.streaming.panes import values
from cutover.streaming.panes.operator import PaneOperator, TimeProgress
from cutover.streaming.simulation import runner


class PaneDriver:
    """One epoch log; each thing that happens ends an epoch."""

    def __init__(self, setting: Setting, folder: Path) -> None:
        self.setting, self.uri = setting, str(folder / "log")
        self.pipeline: Pipeline = runner.pipeline_of(setting, "t")
        self.schema = epoch_log_schema(self.pipeline)
        delta.ensure(self.uri, self.schema, partition_by=["_kind"])
        self.epoch, self.offset, self.watermark = 0, 0, -FOREVER
        self.panes = self.started()

    def started(self) -> PaneOperator:
        """Return the panes that a restarted driver restores."""
        trigger = self.pipeline.trigger
        assert trigger is not None
        panes = PaneOperator(self.pipeline, trigger, forgets=self.setting.allowed_lateness is not None)
        table = delta.open_table(self.uri)
        open_panes = pane_rows.restore_windows(table, self.pipeline, trigger, watermark=self._closing(), is_same=True)
        panes.restore(open_panes)
        return panes

    def run(self, starts: Collection[int]) -> Outcome:
        """Run all events; the driver restarts before each of the epochs `starts`."""
        for happening in schedule_events(self.setting, lambda: self.panes.due):
            if self.epoch in starts:
                self.panes = self.started()
            match happening:
                case Comes(row=row):
                    self._row(row)
                case Ends():
                    self._end(happening)
        return runner.outcome_of(self.setting, self.pipeline, EpochLog(self.uri))

    def _row(self, row: InputRow) -> None:
        self.offset += 1
        rows = pa.Table.from_pylist(self._partials(row), schema=partial_schema(self.pipeline))
        passing = TimeProgress(
            now=row.processing_time,
            watermark_before=self.watermark,
            watermark_after=self.watermark,
            settles=False,
            epoch_ends=False,
        )
        self._commit(rows, passing, records=1)

    def _end(self, end: Ends) -> None:
        passing = TimeProgress(
            now=end.at, watermark_before=self.watermark, watermark_after=end.watermark, epoch_ends=end.epoch_ends
        )
        self.watermark = end.watermark
        self._commit(partial_schema(self.pipeline).empty_table(), passing)

    def _partials(self, row: InputRow) -> list[dict[str, object]]:
        value = runner._value(self.setting, row)
        measure = next(iter(self.pipeline.measures))
        states: dict[str, object] = {
            measure: 1 if self.setting.measure.expression is None else value,
            f"{measure}__sum": value,
            f"{measure}__count": int(value is not None),
        }
        partials = []
        for window in self.setting.window.assign_windows(row.event_time):
            late = is_too_late(self.setting, window, self.watermark)
            position = {"partition": 0, "offset": self.offset - 1, "event_time": row.event_time, "reason": None}
            about = {"_class": "late", "_positions": [position]} if late else {"_class": "accepted"}
            key = {"key": runner._key_text(row.key)}
            partials.append({**states, **about, **values.bounds(window), **key, "_n": 1})
        return partials

    def _commit(self, rows: pa.Table, passing: TimeProgress, *, records: int = 0) -> None:
        emission = self.panes.end_epoch(values.filter_accepted(rows), passing)
        kinds = ["partial" if name == "accepted" else "ledger" for name in rows["_class"].to_pylist()]
        epoch_rows = [
            {**row, "_kind": kind, "_epoch": self.epoch} for row, kind in zip(rows.to_pylist(), kinds, strict=True)
        ]
        epoch_rows.append({"_kind": "epoch", "_epoch": self.epoch, "_record": self._record(records).to_json()})
        table = pa.Table.from_pylist(epoch_rows, schema=self.schema)
        panes = pane_rows.to_rows(emission, self.pipeline, self.epoch)
        write_deltalake(self.uri, pa.concat_tables([table, panes]), mode="append", partition_by=["_kind"])
        self.epoch += 1

    def _record(self, records: int) -> EpochRecord:
        return EpochRecord(
            epoch=self.epoch,
            run_id="r",
            topic="t",
            topic_id="t",
            cluster_id="c",
            start={0: self.offset - records},
            end={0: self.offset},
            max_event={},
            watermark_before=None,
            watermark_after=None,
            panes=panes_fingerprint(self.pipeline),
        )

    def _closing(self) -> int | None:
        return None if self.setting.allowed_lateness is None or self.watermark == -FOREVER else self.watermark


def stream_setting(setting: Setting, folder: Path, *, starts: Collection[int] = ()) -> Outcome:
    """Return what an epoch log says came out."""
    return PaneDriver(setting, folder).run(starts)
