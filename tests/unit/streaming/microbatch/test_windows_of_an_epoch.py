"""Windows of an epoch whose data and offsets are committed separately, which may be lost with it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.lake.control.losses import Starts
from cutover.lake.tables import checksums, data_files
from cutover.lake.tables.schemas import partial_schema
from cutover.streaming.microbatch import aggregate, epoch_record
from cutover.streaming.microbatch.aggregate import EpochPartials

PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema="k string, at timestamp", event_time="at"),
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count()},
)
EPOCH, HOUR = datetime(1970, 1, 1, tzinfo=UTC), 3_600_000_000


def table(hours: Sequence[int | None]) -> pa.Table:
    """Build one partial row for each window that begins the given hours after 1970; None for no window."""
    rows = [
        {
            "window_start": None if hour is None else EPOCH + timedelta(hours=hour),
            "window_end": None if hour is None else EPOCH + timedelta(hours=hour + 1),
            "_class": "malformed" if hour is None else "accepted",
        }
        for hour in hours
    ]
    return pa.Table.from_pylist(rows, schema=partial_schema(PIPELINE))


def collected(hours: Sequence[int | None]) -> EpochPartials:
    return EpochPartials(rows=table(hours), counts=aggregate.NOTHING, number=len(hours))


def written(root: Path, parts: Sequence[Sequence[int | None]]) -> EpochPartials:
    """Write each part of the rows to a file."""
    files = [
        data_files.write_data_file(str(root), table(hours), checksums.new_stem("epoch", n))
        for n, hours in enumerate(parts)
    ]
    return EpochPartials(rows=table([]), counts=aggregate.NOTHING, spilled_files=files, number=sum(map(len, parts)))


@pytest.mark.parametrize(
    ("hours", "expected"),
    [([5, 2, 9], (2 * HOUR, 10 * HOUR)), ([None, 4], (4 * HOUR, 5 * HOUR)), ([None], None), ([], None)],
)
def test_windows_of_an_epoch_span_the_first_start_to_the_last_end(
    hours: Sequence[int | None], expected: Starts | None
) -> None:
    assert epoch_record.windows_of(collected(hours), "unused", "at_least_once") == expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([[5, 6], [2], [9]], (2 * HOUR, 10 * HOUR)),
        ([[9], [None], [2]], (2 * HOUR, 10 * HOUR)),
        ([[1, 30], [4, 5]], (HOUR, 31 * HOUR)),
        ([[None]], None),
    ],
)
def test_windows_of_an_epoch_span_all_its_files(
    tmp_path: Path, parts: Sequence[Sequence[int | None]], expected: Starts | None
) -> None:
    assert epoch_record.windows_of(written(tmp_path, parts), str(tmp_path), "at_most_once") == expected


def test_windows_of_an_atomically_committed_epoch_are_not_computed() -> None:
    assert epoch_record.windows_of(collected([5]), "unused", "exactly_once") is None
