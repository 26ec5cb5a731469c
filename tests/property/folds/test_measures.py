"""A measure is the same whatever the split: by the reference over all records, and by folds of folds in any order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.reconcile.comparison.layout import same, to_plain
from cutover.records.reference import measures as reference
from tests.support.rows.measured import (
    COLUMNS,
    MEASURES,
    PIPELINE,
    Taken,
    finish_partials,
    fold,
    records_of_group,
    table,
)
from tests.support.suite.depth import depth

FEW = depth(few=6, many=200)


def expected_of(rows: list[Taken]) -> dict[str, Any]:
    places = [(row.at, row.partition, row.offset) for row in rows]
    values = [{name: row.columns.get(str(m.expression)) for name, m in MEASURES.items()} for row in rows]
    return reference.finish_values(PIPELINE, reference.merge_values(PIPELINE, values, places))


def differing(expected: dict[str, Any], actual: dict[str, Any]) -> dict[str, Any]:
    return {
        name: (value, actual[name])
        for name, value in expected.items()
        if not same(to_plain(value), to_plain(actual[name]))
    }


@pytest.mark.quick
@FEW
@given(data=st.data(), rows=records_of_group())
def test_any_split_of_the_records_in_any_order_folds_to_the_reference(data: st.DataObject, rows: list[Taken]) -> None:
    parts: dict[int, list[Taken]] = {}
    for row in data.draw(st.permutations(rows)):
        parts.setdefault(data.draw(st.integers(0, 3)), []).append(row)
    folds = [fold([table(part)]) for part in data.draw(st.permutations(list(parts.values())))]

    for actual in finish_partials(folds) if folds else []:
        assert differing(expected_of(rows), actual) == {}


@FEW
@given(rows=records_of_group())
def test_states_are_the_same_whichever_parts_are_merged_first(rows: list[Taken]) -> None:
    third = len(rows) // 3 + 1
    a, b, c = (table(part) for part in (rows[:third], rows[third : 2 * third], rows[2 * third :]))
    exact = [name for name in fold([a]).column_names if not name.startswith("noisy")]
    left_first, right_first, swapped = fold([fold([a, b]), c]), fold([a, fold([b, c])]), fold([c, b, a])

    assert left_first.select(exact).equals(right_first.select(exact))
    assert left_first.select(exact).equals(swapped.select(exact))


@pytest.mark.quick
def test_a_group_without_values_has_no_results() -> None:
    nothing = Taken(at=0, partition=0, offset=0, columns=dict.fromkeys(COLUMNS))
    (row,) = finish_partials([table([nothing])], PIPELINE)

    assert {name: row[name] for name in MEASURES} == expected_of([nothing])
