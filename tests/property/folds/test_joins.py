"""The bags of a join give the same pairs whatever the split: by plain Python over all rows, and by folds of folds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from cutover.definition import Count, Fixed, Max, Pipeline, Sum
from cutover.definition.checks.definition import check_definition
from cutover.definition.model.joins import RIGHT_PARTITION_BASE, How
from cutover.definition.model.pipeline import FOLLOWED_LATENESS
from cutover.engine import queries
from cutover.lake.tables.schemas import partial_schema
from cutover.reconcile.comparison.layout import same, to_plain
from cutover.records.fold import finish_sql, select_pairs_sql
from cutover.records.reference import evaluation
from cutover.timestamps import from_micros, to_micros
from tests.support.rows.joined import (
    HOWS,
    JOIN,
    ONE,
    TWO,
    Row,
    compute_expected,
    finish_partials,
    fold,
    rows,
    table,
    with_join_type,
)

FEW = settings(max_examples=30, deadline=None, derandomize=True)


@FEW
@given(data=st.data(), join_type=st.sampled_from(HOWS), pipeline=st.sampled_from([TWO, ONE]))
def test_any_split_of_both_sides_gives_the_pairs_of_the_reference(
    data: st.DataObject, join_type: How, pipeline: Pipeline
) -> None:
    pipeline = with_join_type(pipeline, join_type)
    given_rows = data.draw(rows(of_two=pipeline.name == TWO.name))
    parts: dict[int, list[Row]] = {}
    for row in data.draw(st.permutations(given_rows)):
        parts.setdefault(data.draw(st.integers(0, 3)), []).append(row)
    folds = [fold(pipeline, [table(pipeline, part)]) for part in parts.values()]

    actual = finish_partials(pipeline, folds) if folds else {}
    expected_rows = compute_expected(pipeline, given_rows)
    different = {
        (key, name): (value, actual[key][name])
        for key, row in expected_rows.items()
        for name, value in row.items()
        if not same(to_plain(value), to_plain(actual[key][name]))
    }
    assert (different, set(actual)) == ({}, set(expected_rows))


@settings(FEW, max_examples=10)
@given(given_rows=rows(of_two=True))
def test_bags_are_the_same_whichever_parts_are_merged_first(given_rows: list[Row]) -> None:
    third = len(given_rows) // 3 + 1
    a, b, c = (table(TWO, given_rows[i * third : (i + 1) * third]) for i in range(3))
    merged, merged_in_other_order = fold(TWO, [fold(TWO, [a, b]), c]), fold(TWO, [fold(TWO, [c]), fold(TWO, [b, a])])

    assert merged.sort_by("ad").equals(merged_in_other_order.sort_by("ad"))


MINUTE = 60_000_000
TIMES = st.integers(-180, 180).map(lambda half: half * MINUTE // 2)


@FEW
@given(
    lefts=st.lists(st.tuples(st.sampled_from(["a", "b", None]), TIMES), max_size=12),
    rights=st.lists(st.tuples(st.sampled_from(["a", "b", None]), TIMES), max_size=12),
    bounds=st.tuples(st.integers(-100, 100), st.integers(-100, 100)).map(sorted),
    size=st.sampled_from([1, 7, 30]),
    copies=st.integers(1, 2),
)
def test_each_pair_of_an_interval_join_is_in_the_window_of_its_earlier_row(
    lefts: list[tuple[str | None, int]],
    rights: list[tuple[str | None, int]],
    bounds: list[int],
    size: int,
    copies: int,
) -> None:
    """The expected pairs follow from the times alone, without any window."""
    between = (f"{bounds[0]} minutes", f"{bounds[1]} minutes")
    pipeline = replace(
        TWO,
        join=replace(JOIN, between=between, ids=("v", "n")),
        window=Fixed(minutes=size),
        measures={"pairs": Count(), "ids": Sum("v + c_n"), "lefts": Sum("v"), "largest": Max("c_n")},
        lateness=FOLLOWED_LATENESS,
    )
    check_definition(pipeline)
    sides = [[(key, micros, id_) for id_, (key, micros) in enumerate(rows * copies)] for rows in (lefts, rights)]
    expected = Counter[tuple[int, str | None, int, int]]()
    for (key, left, left_id), (other, right, right_id) in product(*sides):
        start = min(left, right) // (size * MINUTE) * size * MINUTE
        if key == other is not None and bounds[0] * MINUTE <= right - left <= bounds[1] * MINUTE:
            expected[start, key, left_id, right_id] += 1

    partials = [row for side, rows in enumerate(sides) for row in list_partials(pipeline, side, rows)]
    relation = pa.Table.from_pylist(partials, schema=partial_schema(pipeline))
    with queries.open_duckdb() as connection:
        connection.register("parts", relation)
        query = finish_sql(pipeline, "parts")
        results = queries.query_table(connection, query).to_pylist()
        pairs = queries.query_table(connection, select_pairs_sql(pipeline, f"({query})", by=("v", "c_n"))).to_pylist()

    found = {(to_micros(r["window_start"]), r["ad"], r["v"], r["c_n"]): r["pairs"] for r in pairs}
    assert found == expected
    totals = Counter[tuple[int, str | None]]()
    for (start, key, _, _), count in expected.items():
        totals[start, key] += count
    assert {(to_micros(r["window_start"]), r["ad"]): r["pairs"] for r in results if r["pairs"]} == totals
    groups = list_groups(pipeline, sides)
    by_python = evaluation.compute_join_measures(pipeline, groups)
    by_fold = {(to_micros(r["window_start"]), r["ad"]): {name: r[name] for name in pipeline.measures} for r in results}
    assert by_fold == by_python


def list_partials(pipeline: Pipeline, side: int, rows: Sequence[tuple[str | None, int, int]]) -> list[dict[str, Any]]:
    """Return a partial row of each record and window."""
    bag, names = ("__left", ("at", "v")) if side == 0 else ("__right", ("c_at", "c_n"))
    return [
        {
            "_class": "accepted",
            "window_start": from_micros(start),
            "window_end": from_micros(end),
            "ad": key,
            "_n": 1,
            bag: [{"value": dict(zip(names, (from_micros(micros), id_), strict=True)), "count": 1}],
        }
        for key, micros, id_ in rows
        for start, end in pipeline.window.assign_windows(micros)
    ]


def list_groups(pipeline: Pipeline, sides: Sequence[Sequence[tuple[str | None, int, int]]]) -> dict[Any, Any]:
    """Return the rows of each window and key, as the reference takes them."""
    groups: dict[Any, Any] = {}
    for side, rows_of_side in enumerate(sides):
        names = ("at", "v") if side == 0 else ("c_at", "c_n")
        for key, micros, id_ in rows_of_side:
            values = dict(zip(names, (from_micros(micros).replace(tzinfo=None), id_), strict=True))
            for start, _ in pipeline.window.assign_windows(micros):
                group = groups.setdefault((start, key), (start, (key,), []))
                group[2].append((values, (micros, side * RIGHT_PARTITION_BASE, id_)))
    return groups
