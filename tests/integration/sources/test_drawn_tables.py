"""Property: drawn rows in PostgreSQL, and a drawn history of an Iceberg table, equal what Python wrote to Parquet."""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import EqualTo, In
from pyiceberg.table import Table
from pyiceberg.types import StringType

from cutover.reconcile.external.request import DiffRequest
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from tests.support.servers.postgres import running_server
from tests.support.suite.depth import depth
from tests.support.tables.iceberg_tables import delete_positions, find_folder, make_catalog

MOMENTS = st.datetimes(timezones=st.just(UTC))
CENTS = st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: Decimal(n) / 100)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
KINDS: dict[str, tuple[str, pa.DataType, st.SearchStrategy[Any]]] = {
    "small": ("smallint", pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "whole": ("bigint", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "double": ("double precision", pa.float64(), st.floats()),
    "single": ("real", pa.float32(), st.floats(width=32)),
    "money": ("numeric(12,2)", pa.decimal128(12, 2), CENTS),
    "long": ("numeric", pa.decimal128(38, 18), st.integers(-(10**37), 10**37).map(lambda n: Decimal(n).scaleb(-18))),
    "name": ("text", pa.string(), TEXTS),
    "bytes": ("bytea", pa.binary(), st.binary(max_size=8)),
    "moment": ("timestamptz", pa.timestamp("us", "UTC"), MOMENTS),
    "clock": ("timestamp", pa.timestamp("us"), MOMENTS.map(lambda at: at.replace(tzinfo=None))),
    "day": ("date", pa.date32(), st.dates(date(1, 1, 1), date(9999, 12, 31))),
    "flag": ("boolean", pa.bool_(), st.booleans()),
    "words": ("text[]", pa.list_(pa.string()), st.lists(st.none() | TEXTS, max_size=3)),
    "counts": ("bigint[]", pa.list_(pa.int64()), st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3)),
}  # fmt: skip


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_server() as server:
        yield server


def compare(left: str, right: str) -> Report:
    return compare_tables(DiffRequest(expected=left, actual=right, key=("k",)))


@depth(15, 300)
@given(data=st.data())
def test_drawn_rows_of_a_server_equal_those_in_parquet(address: str, tmp_path: Path, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from([*KINDS]), min_size=1, max_size=4, unique=True))
    cells = st.tuples(*(st.none() | KINDS[name][2] for name in names))
    rows = data.draw(st.lists(cells, min_size=1, max_size=6))
    fields = {"k": pa.int64(), **{name: KINDS[name][1] for name in names}}
    columns = {"k": [*range(len(rows))], **{name: [row[n] for row in rows] for n, name in enumerate(names)}}
    table = pa.table(columns, schema=pa.schema(list(fields.items())))
    pq.write_table(table, tmp_path / "rows.parquet")
    with psycopg.connect(address) as connection:
        declared = ", ".join(f"{name} {KINDS[name][0]}" for name in names)
        connection.execute(f"DROP TABLE IF EXISTS drawn; CREATE TABLE drawn (k bigint, {declared})".encode())
        insert = f"INSERT INTO drawn VALUES (%s{', %s' * len(names)})".encode()  # noqa: S608 -- of a test
        connection.cursor().executemany(insert, [(k, *row) for k, row in enumerate(rows)])

    report = compare(f"{address}#drawn", str(tmp_path / "rows.parquet"))
    assert (report.finding.verdict, report.finding.rows.compared) == (Verdict.CONSISTENT, len(rows)), report.finding

    changed = data.draw(st.sampled_from(names))
    with psycopg.connect(address) as connection:
        was_null = connection.execute(f"SELECT {changed} IS NULL FROM drawn WHERE k = 0".encode()).fetchone()  # noqa: S608
        value = data.draw(KINDS[changed][2]) if was_null == (True,) else None
        connection.execute(f"UPDATE drawn SET {changed} = %s WHERE k = 0".encode(), [value])  # noqa: S608
    assert compare(f"{address}#drawn", str(tmp_path / "rows.parquet")).finding.rows.changed == 1


def make_rows(first: int, count: int, column: str) -> pa.Table:
    at = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=first + n) for n in range(count)]
    keys = [*range(first, first + count)]
    moments = pa.array(at, pa.timestamp("us", "UTC"))
    return pa.table({"k": pa.array(keys, pa.int64()), column: [f"v{k}" for k in keys], "at": moments})


def check_snapshots(
    table: Table, snapshots: Sequence[tuple[int | None, tuple[str, dict[int, str]]]], place: Path
) -> None:
    """Compare each snapshot, and the newest state, with the rows of its model: column, key -> value."""
    for snapshot, (name, rows_of_model) in snapshots:
        source = find_folder(table) + ("" if snapshot is None else f"@snapshot={snapshot}")
        expected = pa.table(
            {"k": pa.array([*rows_of_model], pa.int64()), name: pa.array(rows_of_model.values(), pa.string())}
        )
        pq.write_table(expected, place / "model.parquet")
        finding = compare(source, str(place / "model.parquet")).finding
        rows = finding.rows
        counts = (rows.compared, rows.missing, rows.extra, rows.changed)
        assert counts == (len(rows_of_model), 0, 0, 0), (snapshot, finding.notes)


@pytest.mark.parametrize("seed", range(6))
def test_a_drawn_history_of_iceberg_has_the_rows_of_its_model(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 -- draws a history
    catalog = make_catalog(tmp_path)
    column, model = "v", dict[int, str]()
    table = catalog.create_table("shop.drawn", schema=make_rows(0, 1, column).schema)
    snapshots = dict[int, tuple[str, dict[int, str]]]()
    for step in range(8):
        action = draw.choice(["append", "append", "delete", "overwrite", "rename", "add", "positions"])
        if action == "append" or not model:
            rows = make_rows(step * 10, draw.randrange(1, 5), column)
            table.append(rows.select([name for name in table.schema().column_names if name in rows.schema.names]))
            model |= {int(str(row["k"])): str(row[column]) for row in rows.to_pylist()}
        elif action == "delete":
            keys = draw.sample([*model], min(2, len(model)))
            table.delete(In("k", keys))
            model = {k: v for k, v in model.items() if k not in keys}
        elif action == "overwrite":
            key = draw.choice([*model])
            table.overwrite(make_rows(key, 1, column), overwrite_filter=EqualTo("k", key))
            model[key] = f"v{key}"
        elif action == "positions":
            first = next(iter(table.scan().plan_files()))
            if first.delete_files or not model:
                continue
            key = int(str(pq.read_table(first.file.file_path.removeprefix("file://"))["k"][0].as_py()))
            delete_positions(table, [0])
            del model[key]
        else:
            with table.update_schema() as update:
                if action == "rename":
                    update.rename_column(column, column := f"v{step}")
                else:
                    update.add_column(f"extra{step}", StringType())
            continue
        current = table.current_snapshot()
        assert current is not None
        snapshots[current.snapshot_id] = (column, dict(model))

    check_snapshots(table, [*snapshots.items(), (None, (column, model))], tmp_path)
