"""Panes without rows, as a reader of the table gets them: the same as plain Python's measures of no rows."""

from typing import Any

import duckdb
import pyarrow as pa
import pytest

from cutover.definition import (
    ApproxDistinct,
    Avg,
    Bag,
    Count,
    First,
    Fixed,
    Last,
    Lateness,
    Max,
    Min,
    Pipeline,
    Quantile,
    SelfJoin,
    Stddev,
    Sum,
    Topic,
    TopK,
    Variance,
)
from cutover.definition.measures.kinds import Measure
from cutover.definition.model.joins import How
from cutover.engine import queries
from cutover.lake.tables.schemas import partial_schema
from cutover.records.classes import Class
from cutover.records.fold import finish_columns, make_finishable
from cutover.records.reference.measures import finish_measure, merge_measure
from cutover.streaming.panes import values

SCHEMA = "k string, event_time timestamp NOT NULL, n bigint, d double"
MEASURES: dict[str, Measure] = {
    "rows": Count(),
    "total": Sum("n"),
    "doubles": Sum("d"),
    "least": Min("n"),
    "most": Max("n"),
    "mean": Avg("n"),
    "spread": Variance("n"),
    "deviation": Stddev("d"),
    "first_n": First("n"),
    "last_n": Last("n"),
    "top": TopK("n"),
    "half": Quantile("n", 0.5),
    "different": ApproxDistinct("n"),
    "bag": Bag("n"),
}


def pipeline(**more: Any) -> Pipeline:
    plain: dict[str, Any] = {
        "source": Topic(name="t", schema=SCHEMA, event_time="event_time"),
        "key": ("k",),
        "measures": MEASURES,
    }
    return Pipeline(name="p", window=Fixed(hours=1), lateness=Lateness(allowed="1 hour"), **{**plain, **more})


def of_nothing(definition: Pipeline) -> dict[str, Any]:
    """Compute the measures of a pane without rows."""
    states = values.state_columns(values.of_nothing(definition), definition)
    row = {"window_start": 0, "window_end": 1, "_class": Class.ACCEPTED.value, "k": "a", **states}
    with duckdb.connect() as connection:
        connection.register("rows", pa.Table.from_pylist([row], schema=partial_schema(definition)))
        columns = ", ".join(finish_columns(definition)[name] for name in definition.measures)
        query = f"SELECT {columns} FROM {make_finishable(definition, 'rows')}"  # noqa: S608 -- ours
        table_rows = queries.query_table(connection, query).to_pylist()
    return {name: table_rows[0][name] for name in definition.measures}


@pytest.mark.parametrize("name", MEASURES)
def test_pane_of_no_rows_has_the_measure_of_no_rows(name: str) -> None:
    expected = finish_measure(MEASURES[name], merge_measure(MEASURES[name], [], []), "bigint")

    assert of_nothing(pipeline())[name] == expected


@pytest.mark.parametrize("join_kind", ["inner", "left", "full"])
def test_pane_of_no_pairs_has_none(join_kind: How) -> None:
    join = SelfJoin(left="n > 0", right="n <= 0", on=("k",), how=join_kind)
    definition = pipeline(measures={"pairs": Count(), "total": Sum("right_n")}, join=join)

    assert of_nothing(definition) == {"pairs": 0, "total": None}
