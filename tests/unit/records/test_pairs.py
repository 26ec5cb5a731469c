"""Measures over pairs in DuckDB: rows without a partner, and keys with many rows on both sides."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from cutover.definition import Count, Max, Sum
from cutover.definition.measures.kinds import Measure
from cutover.definition.model.joins import RIGHT_PARTITION_BASE, How
from cutover.engine import queries
from cutover.lake.tables.schemas import partial_schema
from cutover.records.fold import finish_sql
from tests.support.rows.joined import EPOCH, HOUR, JOIN, TWO, Row, finish_partials, table, with_join_type

EMPTY = dict.fromkeys(("price", "v", "seen", "x", "n"))
COUNTED = replace(TWO, measures={"pairs": Count(), "clicks": Sum("c_n"), "worth": Max("v + c_n")})


@pytest.mark.parametrize(
    ("join_kind", "of_left", "of_right"),
    [("inner", 0, 0), ("left", 1, 0), ("full", 1, 1)],
    ids=["inner", "left", "full"],
)
def test_a_key_without_a_partner_keeps_its_row_and_counts_what_the_join_keeps(
    join_kind: How, of_left: int, of_right: int
) -> None:
    alone = [
        Row(partition=0, ad="shown", columns=EMPTY),
        Row(partition=RIGHT_PARTITION_BASE, ad="clicked", columns=EMPTY),
    ]
    pipeline = with_join_type(COUNTED, join_kind)

    rows = finish_partials(pipeline, [table(pipeline, alone)])

    assert {key: row["pairs"] for key, row in rows.items()} == {"shown": of_left, "clicked": of_right}
    assert {row["worth"] for row in rows.values()} == {None}


def test_a_null_key_matches_nothing_and_a_full_join_keeps_both_rows() -> None:
    both = [Row(partition=0, ad=None, columns=EMPTY), Row(partition=RIGHT_PARTITION_BASE, ad=None, columns=EMPTY)]

    counts = {
        join_kind: finish_partials(with_join_type(COUNTED, join_kind), [table(TWO, both)])[None]["pairs"]
        for join_kind in ("inner", "left", "full")
    }

    assert counts == {"inner": 0, "left": 1, "full": 2}


@pytest.mark.parametrize(
    ("rows", "values", "memory"), [(100_000, 10, "200MB"), (3_000, 3_000, "200MB")], ids=["few values", "all different"]
)
def test_a_key_with_many_rows_on_both_sides_finishes_in_little_memory(
    tmp_path: Path, rows: int, values: int, memory: str
) -> None:
    rows_per_value = rows // values
    bag = "(SELECT list({{'value': {{'{}': i::{}}}, 'count': {}::BIGINT}}) FROM range({}) t(i)) AS {}"
    of_left, of_right = (
        bag.format(name, kind, rows_per_value, values, side)
        for name, kind, side in (("v", "INT", "__left"), ("c_n", "BIGINT", "__right"))
    )
    pipeline = replace(COUNTED, measures={**COUNTED.measures, "clicks": Sum("v + c_n")})
    # A separate engine: a limit set in the shared one would apply to every later test of the process.
    with queries.open_duckdb(queries.Bounds(memory=memory, home=tmp_path, threads=2)) as connection:
        connection.execute(
            "CREATE TEMP TABLE parts AS SELECT 'accepted' AS _class, TIMESTAMPTZ '2024-01-01' AS window_start,"
            f" TIMESTAMPTZ '2024-01-02' AS window_end, 'a' AS ad, {of_left}, {of_right}, {2 * rows} AS _n"
        )
        totals = connection.sql(f"SELECT pairs, clicks, worth FROM ({finish_sql(pipeline, 'parts')})").fetchall()  # noqa: S608

    total = 2 * rows_per_value * rows_per_value * values * sum(range(values))
    assert totals == [(rows * rows, Decimal(total), 2 * (values - 1))]


@pytest.mark.parametrize(
    "name", ["u", "v", "l", "r", "x", "n", "count", "value", "there", "grouped", "blocks", "of_left"]
)
def test_key_names_do_not_clash_with_names_of_the_query(name: str) -> None:
    schema = f"at timestamp NOT NULL, `{name}` string, w int"
    source = replace(TWO.source, schema=schema)
    join = replace(JOIN, right=replace(source, name="clicked"), on={name: name})
    measures: dict[str, Measure] = {"pairs": Count(), "most": Max("w + c_w"), "wide": Sum("c_w")}
    pipeline = replace(TWO, source=source, join=join, key=(name,), measures=measures)
    rows = [
        {name: "a", "_class": "accepted", "window_start": EPOCH, "window_end": EPOCH + HOUR, "_n": 1, **bags}
        for bags in (
            {"__left": [{"value": {"w": 1}, "count": 1}]},
            {"__left": [{"value": {"w": 1}, "count": 2}], "__right": [{"value": {"c_w": 4}, "count": 1}]},
        )
    ]
    with queries.open_duckdb() as connection:
        connection.register("parts", pa.Table.from_pylist(rows, schema=partial_schema(pipeline)))
        finished_rows = queries.query_table(connection, finish_sql(pipeline, "parts")).to_pylist()

    values = [tuple(row[column] for column in ("pairs", "most", "wide", "__left")) for row in finished_rows]
    assert values == [(3, 5, Decimal(12), [{"value": {"w": 1}, "count": 3}])]
