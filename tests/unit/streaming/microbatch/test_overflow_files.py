"""Overflow files that Spark wrote into the table's folder, listed and read by kind."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.errors import LakeError
from cutover.lake.tables import checksums
from cutover.lake.tables.schemas import partial_schema
from cutover.pipeline_lake import PipelineLake
from cutover.streaming.microbatch import aggregate
from cutover.streaming.microbatch.aggregate import EpochCounts, EpochPartials, EpochPlan

PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema="k string, at timestamp", event_time="at"),
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count()},
)
PLAN = EpochPlan(epoch=3, start={0: 0}, end={0: 9}, clipped=False, watermark=None)
LIMIT = 5


def rows(kind: str, *pairs: int, unknown: int | None = 0) -> pa.Table:
    row_dicts = [{"_class": kind, "k": "a", "_n": n, "_unknown": unknown} for n in pairs]
    return pa.Table.from_pylist(row_dicts, schema=partial_schema(PIPELINE))


class WrittenFrame:
    """Fake frame that writes the files Spark would: one folder per kind, with Hadoop's checksum files."""

    def __init__(self, parts: dict[str, list[pa.Table]]) -> None:
        self.parts, self.write, self.marks = parts, self, {}  # type: ignore[var-annotated]  # options

    def selectExpr(self, *_: str) -> Self:  # noqa: N802 -- Spark's name
        return self

    def partitionBy(self, _: str) -> Self:  # noqa: N802 -- Spark's name
        return self

    def options(self, **values: str) -> Self:
        self.marks = values
        return self

    def parquet(self, folder: str) -> None:
        for kind, tables in self.parts.items():
            place = Path(folder) / f"__kind={kind}"
            place.mkdir(parents=True)
            for number, table in enumerate(tables):
                pq.write_table(table, place / f"part-{number}.parquet")
                (place / f".part-{number}.parquet.crc").write_bytes(b"crc")


def make_pass(**parts: list[pa.Table]) -> Any:
    return SimpleNamespace(partials=WrittenFrame(parts))


def overflow(root: Path, *, expected: int, pipeline: Pipeline = PIPELINE) -> list[Any]:
    batch_pass = make_pass(partial=[rows("accepted", 1, 2), rows("accepted", 3)], ledger=[rows("late", 4)])
    return aggregate.spill_partials(batch_pass, pipeline, PLAN, str(root), expected=expected)


def test_overflow_files_are_listed_by_kind_and_nothing_else_remains(tmp_path: Path) -> None:
    files = overflow(tmp_path, expected=4)

    kinds = sorted(action.partition_values["_kind"] for action in files)
    remaining_files = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    names = [checksums.parse_name(action.path) for action in files]
    assert kinds == ["ledger", "partial", "partial"]
    assert remaining_files == {action.path for action in files}
    assert [name.label if name else None for name in names] == ["epoch"] * 3


def test_files_of_a_separately_committed_epoch_have_no_weight(tmp_path: Path) -> None:
    apart = Pipeline(
        name="p",
        source=PIPELINE.source,
        key=("k",),
        window=Fixed(hours=1),
        measures={"n": Count()},
        delivery="at_least_once",
    )

    files = overflow(tmp_path, expected=4, pipeline=apart)

    assert checksums.total(action.path for action in files) == 0


@pytest.mark.parametrize("expected", [3, 5])
def test_an_overflow_with_an_unexpected_number_of_rows_is_rejected(tmp_path: Path, expected: int) -> None:
    with pytest.raises(LakeError, match=f"expected {expected} rows in its files, got 4"):
        overflow(tmp_path, expected=expected)


def test_accepted_rows_of_an_overflow_are_read_from_its_files(tmp_path: Path) -> None:
    files = overflow(tmp_path, expected=4)
    epoch_partials = EpochPartials(rows=rows("accepted"), counts=aggregate.NOTHING, spilled_files=files, number=4)

    assert set(aggregate.read_accepted(epoch_partials, PIPELINE, str(tmp_path))["_n"].to_pylist()) == {1, 2, 3}


def test_accepted_rows_of_an_epoch_without_any_are_none(tmp_path: Path) -> None:
    add_actions = aggregate.spill_partials(
        make_pass(ledger=[rows("late", 4)]), PIPELINE, PLAN, str(tmp_path), expected=1
    )
    epoch_partials = EpochPartials(rows=rows("accepted"), counts=aggregate.NOTHING, spilled_files=add_actions, number=1)

    assert aggregate.read_accepted(epoch_partials, PIPELINE, str(tmp_path)) == rows("accepted")


def test_accepted_rows_in_memory_are_those_of_their_class() -> None:
    both = pa.concat_tables([rows("accepted", 1), rows("late", 4)])
    epoch_partials = EpochPartials(rows=both, counts=aggregate.NOTHING, number=2)

    assert aggregate.read_accepted(epoch_partials, PIPELINE, "unused")["_n"].to_pylist() == [1]


def test_sums_of_rows_in_spark_are_by_class() -> None:
    frame = Mock()
    frame.groupBy.return_value.agg.return_value.collect.return_value = [
        {"_class": "accepted", "sum(_n)": 30, "sum(_unknown)": 2, "count(1)": 7},
        {"_class": "late", "sum(_n)": 4, "sum(_unknown)": None, "count(1)": 3},
    ]

    assert aggregate.sums(frame) == (7 + 3, {"accepted": (30, 2), "late": (4, 0)})


@pytest.mark.parametrize(
    ("upper_bound", "number", "is_bounded", "is_taken"),
    [(LIMIT, LIMIT, False, True), (LIMIT + 1, LIMIT, True, True), (LIMIT + 1, LIMIT + 1, True, False)],
)
def test_rows_of_slices_are_collected_up_to_the_limit_and_opened(
    monkeypatch: pytest.MonkeyPatch, upper_bound: int, number: int, is_bounded: bool, is_taken: bool
) -> None:
    sliced, opened = rows("accepted", *([1] * number), unknown=1), rows("accepted", 1, 2, unknown=None)
    collected = Mock(return_value=sliced)
    monkeypatch.setattr(aggregate, "pairs_bound", lambda *_: upper_bound)
    monkeypatch.setattr(aggregate, "collect_partials", collected)
    monkeypatch.setattr(aggregate, "open_slices", lambda *_: opened)
    monkeypatch.setattr(aggregate, "sums", lambda _: (1, {}))
    monkeypatch.setattr(aggregate, "_collect_partials", lambda *_: "by window")
    batch_pass: Any = Mock()
    settings: Any = Mock(**{"stream.overflow_rows": LIMIT})

    partials: Any = aggregate.run_aggregation(batch_pass, PipelineLake(settings, PIPELINE), PLAN, uri="unused")

    assert [call.args[0] for call in batch_pass.slices.limit.call_args_list] == ([LIMIT + 1] if is_bounded else [])
    assert collected.call_args.args[0] is (batch_pass.slices.limit.return_value if is_bounded else batch_pass.slices)
    counts = dict.fromkeys(aggregate.NOTHING.counts, 0) | {"accepted": 3}
    epoch_partials = EpochPartials(rows=opened, counts=EpochCounts(counts=counts, records=3, unknown=LIMIT), number=2)
    assert partials == (epoch_partials if is_taken else "by window")
