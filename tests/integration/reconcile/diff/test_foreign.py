"""Tables that other tools made: what they hold is read as it is, or the table is refused; never a guess."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from cutover.errors import CutoverError, DefinitionError, LakeError
from cutover.reconcile.external.request import DiffRequest, Tolerance
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.report import page
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report

INLINE = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"}


def pair(tmp_path: Path, left: pa.Table, right: pa.Table, **options: Any) -> Report:
    """Compare two Parquet files by `k`."""
    sides = {name: str(tmp_path / f"{name}.parquet") for name in ("expected", "actual")}
    for file, table in zip(sides.values(), (left, right), strict=True):
        pq.write_table(table, file)
    return compare_tables(DiffRequest(**{"key": ("k",), **sides, **options}))


def values(*cells: Any, kind: pa.DataType) -> pa.Table:
    return pa.table({"k": list(range(len(cells))), "v": pa.array(cells, kind)})


def write_upgraded(folder: Path, protocol: dict[str, Any], **deleted: Any) -> str:
    """Write a table, then a commit by hand that asks more of its readers; return its folder."""
    write_deltalake(folder, pa.table({"k": [1, 2, 3], "v": [1, 2, 3]}))
    log = folder / "_delta_log"
    actions_of_first = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    add = next(action for action in actions_of_first if "add" in action)
    metadata = next(action for action in actions_of_first if "metaData" in action)
    removal = {"remove": {"path": add["add"]["path"], "dataChange": True, "deletionTimestamp": 1}}
    add["add"] |= deleted
    metadata["metaData"]["configuration"] = protocol.pop("configuration", {})
    schema = json.loads(metadata["metaData"]["schemaString"])
    for number, field in enumerate(schema["fields"], start=1):
        field["metadata"] |= {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}
    metadata["metaData"]["schemaString"] = json.dumps(schema)
    actions = [{"commitInfo": {"timestamp": 1}}, {"protocol": protocol}, metadata, *([removal, add] if deleted else [])]
    (log / f"{1:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
    assert DeltaTable(folder).version() == 1
    return str(folder)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("protocol", "deleted", "feature"),
    [
        (
            {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
            | {"writerFeatures": ["deletionVectors"]},
            {"deletionVector": INLINE | {"sizeInBytes": 40, "cardinality": 1}},
            "deletionVectors",
        ),
        (
            {"minReaderVersion": 2, "minWriterVersion": 5, "configuration": {"delta.columnMapping.mode": "name"}},
            {},
            "columnMapping",
        ),
    ],
)
def test_a_table_whose_files_are_not_its_rows_is_refused(
    tmp_path: Path, protocol: dict[str, Any], deleted: dict[str, Any], feature: str
) -> None:
    table = write_upgraded(tmp_path / "table", dict(protocol), **deleted)

    with pytest.raises(LakeError, match=feature):
        compare_tables(DiffRequest(expected=table, actual=table, key=("k",)))


def test_a_table_that_may_have_deletion_vectors_and_has_none_is_read(tmp_path: Path) -> None:
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    table = write_upgraded(tmp_path / "table", protocol)

    tables = compare_tables(DiffRequest(expected=table, actual=f"{table}@v0", key=("k",)))

    assert (tables.finding.verdict, tables.finding.rows.compared) == (Verdict.CONSISTENT, 3)


def test_partitions_of_unusual_values_are_read(tmp_path: Path) -> None:
    names = ["a b", "x:y", "50%", "a/b", None, "é", "%20"]
    rows = pa.table({"k": pa.array(names, pa.string()), "v": list(range(len(names)))})
    write_deltalake(tmp_path / "table", rows, partition_by=["k"])
    pq.write_table(rows, tmp_path / "rows.parquet")

    tables = compare_tables(
        DiffRequest(expected=str(tmp_path / "rows.parquet"), actual=str(tmp_path / "table"), key=("k",))
    )

    assert (tables.finding.verdict, tables.finding.rows.compared) == (Verdict.CONSISTENT, len(names))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param(
            values(Decimal("1.23"), kind=pa.decimal128(38, 2)),
            values(Decimal("1.23456789"), kind=pa.decimal128(10, 8)),
            id="a decimal that would be rounded",
        ),
        pytest.param(
            values(2**53 + 1, kind=pa.int64()), values(float(2**53), kind=pa.float64()), id="an integer beyond a double"
        ),
        pytest.param(
            values(2**24 + 1, kind=pa.int64()), values(float(2**24), kind=pa.float32()), id="an integer beyond a float"
        ),
        pytest.param(
            values(10**9 + 1, kind=pa.int64()), values(1e9, kind=pa.float64()), id="an integer that is one off"
        ),
        pytest.param(
            values(Decimal("0.5"), kind=pa.decimal128(38, 1)),
            values(7, kind=pa.int64()),
            id="another number",
        ),
        pytest.param(
            values(datetime(2026, 1, 1, tzinfo=UTC), kind=pa.timestamp("us", tz="UTC")),
            pa.table({"k": [0], "v": pa.array([1_767_225_600_000_000_001], pa.timestamp("ns"))}),
            id="a time that is a nanosecond off",
        ),
    ],
)
def test_a_common_type_hides_no_difference(tmp_path: Path, left: pa.Table, right: pa.Table) -> None:
    assert pair(tmp_path, left, right).finding.verdict is Verdict.DIVERGED
    assert pair(tmp_path, right, left).finding.verdict is Verdict.DIVERGED


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param(values(1, None, kind=pa.int64()), values(1, None, kind=pa.int16()), id="integers"),
        pytest.param(values(7, kind=pa.int64()), values(7.0, kind=pa.float64()), id="integer and double"),
        pytest.param(
            values(Decimal("7.50"), kind=pa.decimal128(38, 2)),
            values(Decimal("7.5000"), kind=pa.decimal128(10, 4)),
            id="decimals",
        ),
        pytest.param(
            values(Decimal("0.10"), kind=pa.decimal128(38, 2)), values(0.1, kind=pa.float64()), id="decimal and double"
        ),
        pytest.param(
            values(datetime(2026, 1, 1, tzinfo=UTC), kind=pa.timestamp("us", tz="UTC")),
            pa.table({"k": [0], "v": pa.array([1_767_225_600_000], pa.timestamp("ms"))}),
            id="times",
        ),
    ],
)
def test_equal_values_of_other_types_agree(tmp_path: Path, left: pa.Table, right: pa.Table) -> None:
    assert pair(tmp_path, left, right).finding.verdict is Verdict.CONSISTENT
    assert pair(tmp_path, right, left).finding.verdict is Verdict.CONSISTENT


def test_times_of_spark_are_read(tmp_path: Path) -> None:
    rows = values(datetime(2026, 1, 1, tzinfo=UTC), None, kind=pa.timestamp("us", tz="UTC"))
    pq.write_table(rows, tmp_path / "int96.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(rows, tmp_path / "plain.parquet")

    tables = compare_tables(
        DiffRequest(expected=str(tmp_path / "plain.parquet"), actual=str(tmp_path / "int96.parquet"), key=("k",))
    )

    assert tables.finding.verdict is Verdict.CONSISTENT


def test_values_that_cannot_be_one_type_differ(tmp_path: Path) -> None:
    lists = pa.table({"k": [0], "v": pa.array([[1, 2]], pa.list_(pa.int64()))})

    assert pair(tmp_path, values(1, kind=pa.int64()), lists).finding.verdict is Verdict.DIVERGED


def test_columns_of_any_name_are_compared(tmp_path: Path) -> None:
    names = ("k", "e0", "a0", "d0", "_copy", "_diff", "_group", "_hash", "_of", "n", "x", "s", "1", 'a "b"', "_differs")
    left = pa.table({name: [1, 2] for name in names})
    right = pa.table({name: [1, 2 + (name == "e0")] for name in names})

    for key in (("k",), ("a0",), ("_copy", "_diff"), ("_group", "n")):
        report = pair(tmp_path, left, right, key=key)
        assert (report.finding.rows.changed, [cell.measure for cell in report.finding.differences]) == (1, ["e0"])
        assert pair(tmp_path, left, left, key=key).finding.verdict is Verdict.CONSISTENT


@pytest.mark.quick
def test_a_tolerance_on_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="`v`: expected a number"):
        pair(
            tmp_path,
            values("a", kind=pa.string()),
            values("b", kind=pa.string()),
            tolerances={"v": Tolerance(absolute=1.0)},
        )


@pytest.mark.parametrize(("right", "verdict"), [("1.24", Verdict.CONSISTENT), ("1.25", Verdict.DIVERGED)])
def test_a_tolerance_holds_for_decimals(tmp_path: Path, right: str, verdict: Verdict) -> None:
    left, kind = values(Decimal("1.23"), kind=pa.decimal128(38, 2)), pa.decimal128(38, 2)

    assert (
        pair(
            tmp_path, left, values(Decimal(right), kind=kind), tolerances={"v": Tolerance(absolute=0.01)}
        ).finding.verdict
        is verdict
    )


def test_numbers_too_far_apart_to_subtract_differ(tmp_path: Path) -> None:
    left, right = (values(edge, kind=pa.int64()) for edge in (-(2**63) + 1, 2**63 - 1))

    assert pair(tmp_path, left, right, tolerances={"v": Tolerance(absolute=1.0)}).finding.verdict is Verdict.DIVERGED


@pytest.mark.quick
def test_of_two_empty_tables_nothing_is_compared(tmp_path: Path) -> None:
    empty, one_row = values(kind=pa.int64()), values(1, kind=pa.int64())
    empty = empty.cast(one_row.schema)

    nothing = pair(tmp_path, empty, empty)
    assert (nothing.finding.verdict, nothing.finding.exit_code, nothing.finding.policy.within) == (
        Verdict.NOT_COMPARABLE,
        2,
        False,
    )
    assert "no row is left on either side" in nothing.finding.sentence
    assert "no row is left on either side" in page.render_page(nothing)


def test_an_empty_table_differs_from_others(tmp_path: Path) -> None:
    empty, one_row = values(kind=pa.int64()), values(1, kind=pa.int64())
    empty = empty.cast(one_row.schema)

    report = pair(tmp_path, one_row, empty)
    assert (report.finding.verdict, report.finding.rows.missing) == (Verdict.DIVERGED, 1)


@pytest.mark.quick
@pytest.mark.parametrize("source", ["table/*.parquet", ".", "table/_delta_log/.."])
def test_files_of_a_delta_table_are_not_read_behind_its_back(tmp_path: Path, source: str) -> None:
    rows = values(1, kind=pa.int64())
    write_deltalake(tmp_path / "table", rows)
    write_deltalake(tmp_path / "table", rows, mode="overwrite")
    pq.write_table(rows, tmp_path / "rows.parquet")
    diff_request = DiffRequest(expected=str(tmp_path / "rows.parquet"), actual=str(tmp_path / source), key=("k",))

    if source.endswith(".."):
        assert compare_tables(diff_request).finding.verdict is Verdict.CONSISTENT
    else:
        with pytest.raises(CutoverError, match="Delta table"):
            compare_tables(diff_request)


def test_what_spark_has_not_committed_is_not_read(tmp_path: Path) -> None:
    rows = values(1, kind=pa.int64())
    for part in ("part-0.parquet", "_temporary/0/part-0.parquet", ".hidden/part-0.parquet"):
        (tmp_path / "out" / part).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, tmp_path / "out" / part)
    pq.write_table(rows, tmp_path / "rows.parquet")

    tables = compare_tables(
        DiffRequest(expected=str(tmp_path / "rows.parquet"), actual=str(tmp_path / "out"), key=("k",))
    )

    assert tables.finding.verdict is Verdict.CONSISTENT
