"""Workload of the soak tests: a small definition, prepared epochs, and the file of the measurements."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cutover.clock import Point
from cutover.definition import Count, Fixed, Lateness, Max, Pipeline, Sum, Topic
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.records.classes import Class

KEYS = 200
PARTITIONS = 1
WINDOW = 10_000_000  # microseconds


def pipeline(topic: str) -> Pipeline:
    """Make the definition, with windows of 10 seconds by key."""
    return Pipeline(
        name="soak",
        source=Topic(
            name=topic,
            schema="id bigint NOT NULL, k string, v bigint, at timestamp NOT NULL",
            event_time="at",
            time_format="millis",
        ),
        key=("k",),
        window=Fixed(seconds=10),
        measures={"n": Count(), "total": Sum("v"), "worst": Max("v")},
        lateness=Lateness(out_of_orderness="5 seconds", allowed="0 seconds"),
        max_rows_per_epoch=5_000,
    )


class Notes:
    """File with one JSON line per measurement; as a probe, it records when each point was reached."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file, self._lock = path.open("a", encoding="utf-8", buffering=1), threading.Lock()

    def __call__(self, point: Point, epoch: int) -> None:
        """Record that a point was reached."""
        self.add(point=point, of=epoch, at=time.time())

    def add(self, **values: object) -> None:
        """Append one line."""
        with self._lock:
            self._file.write(json.dumps(values) + "\n")


class Prepared:
    """Rows of an epoch like those of the driver: all keys in two windows, five late records, and the epoch's record."""

    def __init__(self, definition: Pipeline) -> None:
        self._schema = epoch_log_schema(definition)
        rows = [_partial(-window * WINDOW, key) for window in range(2) for key in range(KEYS)]
        self._rows = pa.Table.from_pylist([*rows, *(_late(number) for number in range(5))], schema=self._schema)

    def of(self, record: EpochRecord) -> pa.Table:
        """Make the rows of an epoch, whose windows advance with its number."""
        shift = pa.scalar(record.epoch * 1_000_000 // WINDOW * WINDOW, pa.duration("us"))
        rows = self._set("_epoch", self._rows, pa.repeat(pa.scalar(record.epoch, pa.int64()), self._rows.num_rows))
        for name in ("window_start", "window_end"):
            rows = self._set(name, rows, pc.add(rows[name], shift))
        record_row = {"_kind": "epoch", "_epoch": record.epoch, "_record": record.to_json()}
        return pa.concat_tables([rows, pa.Table.from_pylist([record_row], schema=self._schema)])

    def _set(self, name: str, rows: pa.Table, values: "pa.Array[Any] | pa.ChunkedArray[Any]") -> pa.Table:
        return rows.set_column(self._schema.get_field_index(name), self._schema.field(name), values)


def _partial(start: int, key: int) -> dict[str, object]:
    return {
        "_kind": "partial",
        "_epoch": 0,
        "_class": Class.ACCEPTED.value,
        "window_start": start,
        "window_end": start + WINDOW,
        "k": f"key-{key}",
        "n": 3,
        "total": key,
        "worst": key,
        "_n": 3,
        "_unknown": 0,
    }


def _late(number: int) -> dict[str, object]:
    start = -60 * WINDOW
    position = {"partition": 0, "offset": number, "event_time": start, "reason": None}
    late = _partial(start, number) | {"_kind": "ledger", "_class": Class.LATE.value, "n": 1, "_n": 1}
    return late | {"_positions": [position]}
