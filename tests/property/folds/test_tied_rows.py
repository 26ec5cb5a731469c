"""Ties of every kind, drawn: equal event times, values, offsets across partitions, copies; no order of them counts.

Few times, values and keys, so that most rows have equals. Folds of partial rows in any order: `test_measures`,
`test_sessions`; large tables on several threads: `test_ties`.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.definition import Accumulation, AtWatermark, Count, Max, Min, Repeat, Sum
from cutover.definition.measures.kinds import Measure
from cutover.definition.windows.kinds import Window
from cutover.lake.tables.schemas import make_arrow_schema
from cutover.log.kafka import RawRecord
from cutover.panes import reference
from cutover.panes.model import InputRow, Setting
from cutover.reconcile.comparison.diff import diff_relations
from cutover.reconcile.comparison.layout import Layout, Value
from cutover.records import reference as paths
from tests.property.panes.test_panes import MILLISECOND, TO_THE_END, WINDOWS, last_values
from tests.support.comparison.claimed import fold_log_by_place
from tests.support.log.logs import WINDOWS as KINDS
from tests.support.log.logs import Send, borders, log_of, pipelines, windows
from tests.support.suite.depth import depth

ORDER = st.randoms(use_true_random=False)
FEW_TIMES = st.integers(0, 3).map(lambda time: time * MILLISECOND)
TIED = st.lists(
    st.builds(
        InputRow,
        event_time=FEW_TIMES,
        processing_time=FEW_TIMES,
        key=st.sampled_from("ab"),
        columns=st.fixed_dictionaries({"value": st.integers(-1, 1)}),
    ),
    max_size=14,
).map(tuple)
MEASURES: st.SearchStrategy[Measure] = st.sampled_from([Sum("value"), Count(), Min("value"), Max("value")])


def shuffle_rows(rows: Sequence[Any], order: Random) -> list[Any]:
    """Return the same rows in another order."""
    return order.sample(rows, len(rows))


@given(rows=TIED, order=ORDER, window=WINDOWS, measure=MEASURES)
def test_batch_is_the_same_in_whatever_order_rows_are_given(
    rows: tuple[InputRow, ...], order: Random, window: Window, measure: Measure
) -> None:
    setting = Setting(
        rows=rows,
        measure=measure,
        window=window,
        trigger=Repeat(AtWatermark()),
        accumulation=Accumulation.ACCUMULATING,
    )

    assert reference.run_batch(replace(setting, rows=tuple(shuffle_rows(rows, order)))) == reference.run_batch(setting)


@given(data=st.data(), order=ORDER)
def test_last_panes_are_the_same_in_whatever_order_rows_of_one_moment_are_given(
    data: st.DataObject, order: Random
) -> None:
    drawn_setting = data.draw(TO_THE_END.settings(Accumulation.RETRACTING))
    setting = replace(drawn_setting, rows=data.draw(TIED), allowed_lateness=None)
    other = replace(setting, rows=tuple(shuffle_rows(setting.rows, order)))

    assert last_values(reference.run(other)) == last_values(reference.run(setting))


SENDS = st.builds(
    Send,
    partition=st.integers(0, 2),
    wait=st.sampled_from([0, 0, 0, 3_600]),
    ahead=st.sampled_from([0, 0, -3_600, -7_200]),
    fields=st.fixed_dictionaries(
        {
            "k": st.sampled_from([None, "a"]),
            "v": st.integers(0, 1),
            "x": st.sampled_from([None, 0.25]),
            "i": st.integers(0, 2),
        }
    ),
    repeats=st.sampled_from([0, 0, 1]),
)


@pytest.mark.parametrize("kind", KINDS)
@depth(few=8, many=1_000)
@given(data=st.data(), log=st.lists(SENDS, max_size=30).map(log_of), order=ORDER)
def test_refold_is_the_same_in_whatever_order_records_of_the_log_are_read(
    kind: str, data: st.DataObject, log: tuple[RawRecord, ...], order: Random
) -> None:
    pipeline = data.draw(pipelines(window=windows(kind)))
    ends = data.draw(borders(log, max_count=3))
    other = shuffle_rows(log, order)

    stream, batch_result = paths.compute_reference(pipeline, log, epochs=ends), paths.compute_reference(pipeline, log)

    assert paths.compute_reference(pipeline, other) == batch_result
    assert paths.compute_reference(pipeline, other, epochs=ends) == stream
    assert fold_log_by_place(pipeline, other, stream, batch_result) == fold_log_by_place(
        pipeline, log, stream, batch_result
    )


CELLS = st.lists(st.tuples(st.integers(0, 1), st.sampled_from([None, "a"]), st.integers(0, 2)), max_size=12)
LAYOUT = Layout(keys=("w", "k"), values=(Value(name="v"),), group="w", wide=frozenset())


def differences(
    left_rows: Sequence[tuple[object, ...]], right_rows: Sequence[tuple[object, ...]]
) -> list[tuple[object, ...]]:
    """Return all that the comparison of two tables finds, in order."""
    schema = make_arrow_schema({"w": pa.int64(), "k": pa.string(), "v": pa.int64()})
    with duckdb.connect() as connection:
        for name, rows in (("l", left_rows), ("r", right_rows)):
            dictionaries = [dict(zip(schema.names, row, strict=True)) for row in rows]
            connection.register(name, pa.Table.from_pylist(dictionaries, schema=schema))
        counts = diff_relations(connection, LAYOUT, "l", "r", into="apart")
        return [
            (counts.missing, counts.extra, counts.changed),
            *connection.execute("FROM apart ORDER BY ALL").fetchall(),
        ]


@depth(few=10, many=1_000)
@given(left=CELLS, right=CELLS, order=ORDER)
def test_diff_is_the_same_in_whatever_order_copies_of_a_key_stand(
    left: list[tuple[int, str | None, int]], right: list[tuple[int, str | None, int]], order: Random
) -> None:
    assert differences(shuffle_rows(left, order), shuffle_rows(right, order)) == differences(left, right)
    assert differences(left, shuffle_rows(left, order))[0] == (0, 0, 0)
