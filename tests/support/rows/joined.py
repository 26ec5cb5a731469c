"""Joins to prove: pipelines over one topic and over two, and records of both sides as partial rows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from cutover.definition import Avg, Count, Fixed, Join, Lateness, Max, Min, Pipeline, SelfJoin, Sum, Topic
from cutover.definition.model.joins import RIGHT_PARTITION_BASE, How
from cutover.engine import queries
from cutover.lake.tables.schemas import partial_schema
from cutover.records.fold import finish_sql, fold_sql
from cutover.records.reference import evaluation

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOWS: tuple[How, ...] = ("inner", "left", "full")

JOIN = Join(
    right=Topic(
        name="clicked",
        schema="at timestamp NOT NULL, banner string, x double, n bigint",
        event_time="at",
        time_format="millis",
    ),
    on={"ad": "banner"},
    prefix="c_",
)
SELF = SelfJoin(on=("ad",), left="v IS NULL OR v < 3", right="n IS NOT NULL", prefix="c_")
TWO = Pipeline(
    name="shown_and_clicked",
    source=Topic(
        name="shown",
        schema="at timestamp NOT NULL, ad string, price decimal(9,2), v int, seen timestamp",
        event_time="at",
        time_format="millis",
    ),
    join=JOIN,
    key=("ad",),
    window=Fixed(hours=1),
    measures={
        "pairs": Count(),
        "spent": Sum("price"),
        "noise": Sum("c_x"),
        "mixed": Sum("coalesce(v, 1) + coalesce(c_n, 2)"),
        "fails": Max("v + c_n"),
        "mean": Avg("v"),
        "rate": Avg("c_n"),
        "sight": Max("seen"),
        "name": Min("concat(ad, '!')"),
        "none": Sum("CASE WHEN c_n IS NULL THEN 1 ELSE 0 END"),
    },
    lateness=Lateness(allowed="1 hour", max_ahead="1 hour"),
)
ONE = replace(
    TWO,
    name="with_itself",
    source=replace(TWO.source, schema=TWO.source.schema + ", x double, n bigint"),
    join=SELF,
)


def with_join_type(pipeline: Pipeline, join_type: How) -> Pipeline:
    """Return a pipeline whose join keeps other rows without a partner."""
    assert pipeline.join is not None
    return replace(pipeline, join=replace(pipeline.join, how=join_type))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One accepted record of the one window."""

    partition: int
    ad: str | None
    columns: Mapping[str, Any]  # as its own topic names them

    @property
    def is_right(self) -> bool:
        """Return whether it is of the right topic."""
        return self.partition >= RIGHT_PARTITION_BASE


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "price": st.integers(-300, 300).map(lambda cents: Decimal(cents) / 100),
    "v": st.integers(0, 4),
    "seen": st.sampled_from([EPOCH, EPOCH - HOUR]),
    "x": st.sampled_from([0.1, -2.5, 1e9 + 0.1, 3e-55, -3e-55, 5e-324]),
    "n": st.sampled_from([0, 1, 2**63 - 1]),
}


def rows(*, of_two: bool, max_size: int = 14) -> st.SearchStrategy[list[Row]]:
    """Draw accepted records of one window: few keys (a null one too), few values, so that rows repeat."""
    values = st.fixed_dictionaries({name: st.one_of(st.none(), value) for name, value in VALUES.items()})
    partition = st.sampled_from([0, RIGHT_PARTITION_BASE] if of_two else [0])
    row = st.builds(Row, partition=partition, ad=st.sampled_from(["a", "b", None]), columns=values)
    return st.lists(row, max_size=max_size)


def sides_of(pipeline: Pipeline, row: Row) -> tuple[bool, bool]:
    """Return whether a record is on the left and on the right."""
    if isinstance(pipeline.join, SelfJoin):
        v = row.columns["v"]
        return v is None or v < 3, row.columns["n"] is not None
    return not row.is_right, row.is_right


def partial(pipeline: Pipeline, row: Row) -> dict[str, Any]:
    """Return the partial row of one record."""
    left, right = sides_of(pipeline, row)
    of_left = {name: row.columns[name] for name in ("price", "v", "seen")}
    of_right = {f"c_{name}": row.columns[name] for name in ("x", "n")}
    return {
        "_class": "accepted",
        "window_start": EPOCH,
        "window_end": EPOCH + HOUR,
        "ad": row.ad,
        "_n": 1,
        "__left": [{"value": of_left, "count": 1}] if left else None,
        "__right": [{"value": of_right, "count": 1}] if right else None,
    }


def table(pipeline: Pipeline, part: list[Row]) -> pa.Table:
    """Return the partial rows of some records."""
    return pa.Table.from_pylist([partial(pipeline, row) for row in part], schema=partial_schema(pipeline))


def fold(pipeline: Pipeline, parts: list[pa.Table]) -> pa.Table:
    """Return the fold of some partials as partial rows again."""
    with queries.open_duckdb() as connection:
        connection.register("parts", pa.concat_tables(parts))
        table = queries.query_table(
            connection,
            f"SELECT 'accepted' AS _class, NULL AS _positions, NULL AS _partition, NULL AS _unknown, *"  # noqa: S608
            f" FROM ({fold_sql(pipeline, 'parts')})",
        )
    schema = partial_schema(pipeline)
    return table.select(schema.names).cast(schema)


def finish_partials(pipeline: Pipeline, parts: list[pa.Table]) -> dict[str | None, dict[str, Any]]:
    """Return the measures by key, from partials."""
    with queries.open_duckdb() as connection:
        connection.register("parts", pa.concat_tables(parts))
        finished_rows = queries.query_table(connection, finish_sql(pipeline, "parts")).to_pylist()
    return {row["ad"]: {name: row[name] for name in pipeline.measures} for row in finished_rows}


def compute_expected(pipeline: Pipeline, records: list[Row]) -> dict[str | None, dict[str, Any]]:
    """Return the same by plain Python."""
    groups: dict[Any, Any] = {}
    for offset, row in enumerate(records):
        left, right = sides_of(pipeline, row)
        plain = {n: v.replace(tzinfo=None) if isinstance(v, datetime) else v for n, v in row.columns.items()}
        values = {**plain, **{f"c_{n}": v for n, v in plain.items()}, "join.left": left, "join.right": right}
        groups.setdefault(row.ad, (0, (row.ad,), []))[2].append((values, (0, row.partition, offset)))
    return evaluation.compute_join_measures(pipeline, groups)
