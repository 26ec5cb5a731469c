"""Files that contain rows of several epochs: separable epochs, and the span of each file."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from cutover.lake.epochs.delivery import find_folded_classes
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord, list_merged_spans
from cutover.lake.tables import checksums, commits, data_files, delta
from cutover.lake.tables.schemas import make_arrow_schema
from tests.unit.streaming.epochs import FIRST, SECOND

SCHEMA = make_arrow_schema(
    {"_kind": pa.string(), "_epoch": pa.int64(), "_record": pa.string(), "_class": pa.string(), "_n": pa.int64()}
)
COUNTED = [
    replace(FIRST, counts={"accepted": 3, "late": 1, "future": 0}),
    replace(SECOND, counts={"accepted": 2, "late": 0, "future": 0}),
]


def epoch_log(folder: Path, *rows: tuple[int, str, int]) -> EpochLog:
    """Create a log from rows of epoch, class and pairs."""
    table = delta.ensure(str(folder / "stream"), SCHEMA, partition_by=["_kind"])
    table_rows = [
        {"_kind": "partial" if kind == "accepted" else "ledger", "_epoch": epoch, "_class": kind, "_n": pairs}
        for epoch, kind, pairs in rows
    ]
    commits.append(table, pa.Table.from_pylist(table_rows, schema=SCHEMA))
    return EpochLog(str(folder / "stream"))


@pytest.mark.parametrize(
    ("rows", "records", "expected"),
    [
        ([(0, "accepted", 2), (0, "accepted", 1), (0, "late", 1), (1, "accepted", 2)], COUNTED[:1], []),
        ([(0, "accepted", 2), (0, "accepted", 1), (0, "late", 1), (1, "accepted", 2)], COUNTED, []),
        ([(1, "accepted", 5), (0, "late", 1)], COUNTED, []),
        ([(1, "accepted", 5), (0, "late", 1)], COUNTED[:1], ["accepted"]),
        ([(1, "accepted", 5), (1, "late", 1)], COUNTED[:1], ["accepted", "late"]),
    ],
    ids=["first of two", "both", "folded completely", "folded, its first part", "both kinds folded"],
)
def test_epochs_merged_into_a_later_number_cannot_be_separated(
    tmp_path: Path, rows: list[tuple[int, str, int]], records: list[EpochRecord], expected: list[str]
) -> None:
    assert find_folded_classes(epoch_log(tmp_path, *rows), records) == expected


def test_only_files_with_partial_aggregates_have_spans(tmp_path: Path) -> None:
    table = delta.ensure(str(tmp_path / "stream"), SCHEMA, partition_by=["_kind"])
    row = pa.Table.from_pylist([{"_epoch": 4}], schema=pa.schema([f for f in SCHEMA if f.name != "_kind"]))
    weight = checksums.weight_word(0)
    named_files = [
        ("partial", ("fold", 3, 4)),
        ("partial", ("fork", 0, 2)),
        ("ledger", ("fold", 0, 4)),
        ("partial", None),
    ]
    files = [
        data_files.write_data_file(
            str(tmp_path / "stream"),
            row,
            checksums.new_stem("epoch", 4) if words is None else checksums.new_stem(*words, weight),
            partition={"_kind": kind},
        )
        for kind, words in named_files
    ]
    commits.transact(table, files)

    assert list_merged_spans(delta.open_table(str(tmp_path / "stream"))) == [(0, 2), (3, 4)]
