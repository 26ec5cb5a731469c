"""The bags of a join give the same pairs whatever the split: by plain Python over all rows, and by folds of folds."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cutover.definition import Pipeline
from cutover.definition.model.joins import How
from cutover.reconcile.comparison.layout import same, to_plain
from tests.support.rows.joined import (
    HOWS,
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
