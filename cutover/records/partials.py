"""Partial aggregates: mergeable rows of every class, computed from classified rows with one shuffle."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.kinds import Sessions
from cutover.records.classes import WITH_POSITIONS, Class
from cutover.records.columns import aggregate, select_expressions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOW = ("window_start", "window_end")
NO_AGGREGATES: Mapping[str, str] = MappingProxyType({})
_WITH_POSITIONS = ", ".join(f"'{name}'" for name in WITH_POSITIONS)
_WITHOUT_KEY = f"'{Class.MALFORMED}', '{Class.FILTERED}'"


def aggregate_partials(
    classified: "DataFrame",
    pipeline: Pipeline,
    *,
    by: tuple[str, ...] = (),
    extra_aggregates: Mapping[str, str] = NO_AGGREGATES,
) -> "DataFrame":
    """Aggregate by class, window and key; sessions by time buckets whose rows all belong to one session.

    Each (record, window) pair that does not count keeps its own row: its position is a grouping column. So no aggregate
    collects a list, which would disable code generation and need unbounded memory.

    Args:
        classified: Rows as `classify.classify_records` returns them.
        pipeline: Key and measures.
        by: Additional grouping columns of `classified`.
        extra_aggregates: Additional aggregates: name to Spark SQL over the columns of `classified`.

    Returns:
        The columns of `by`, then the partial shape: `_class string`, `window_start timestamp`, `window_end timestamp`,
        the key columns, the state columns, `_n bigint` (records), `_positions` (an array of one struct for malformed,
        future, duplicate and late: `partition int`, `offset bigint`, `event_time timestamp`, `reason string`, and `id`
        if records have ids; null for accepted and filtered), `_partition int` (only for filtered, which are counted by
        partition; omitted if `by` contains it), `_unknown bigint`, and the columns of `extra_aggregates`. Window, key
        and states are null for malformed and filtered; the event time of the position is null for malformed. Unordered.
    """
    states = compile_pipeline(pipeline).states
    bounds = dict(zip(WINDOW, ("min(window_start)", "max(window_end)"), strict=True))
    aggregates = {
        **{f"__state_{position}": state.create for position, state in enumerate(states)},
        **(bounds if pipeline.window.merges else {}),
        "__n": "count(1)",
        "__unknown": "sum(_unknown)",
        **extra_aggregates,
    }
    aggregated = aggregate(
        _add_grouping_columns(classified, pipeline, by),
        _list_grouping_columns(pipeline, by),
        [f"{sql} AS `{name}`" for name, sql in aggregates.items()],
    )
    return select_expressions(
        aggregated,
        *(f"`__by_{name}` AS `{name}`" for name in by),
        "_class",
        "window_start",
        "window_end",
        *(f"`__key_{position}` AS `{key}`" for position, key in enumerate(pipeline.key)),
        *(
            f"CAST(IF(_class IN ({_WITHOUT_KEY}), NULL, `__state_{position}`) AS {state.type}) AS `{state.column}`"
            for position, state in enumerate(states)
        ),
        "__n AS _n",
        "IF(__position IS NULL, NULL, array(__position)) AS _positions",
        *(() if "_partition" in by else ("__partition AS _partition",)),
        "CAST(__unknown AS bigint) AS _unknown",
        *(f"`{name}`" for name in extra_aggregates),
    )


def _list_grouping_columns(pipeline: Pipeline, by: tuple[str, ...]) -> list[str]:
    """Return the grouping columns of `_add_grouping_columns`; the fold merges the time buckets of a session."""
    window = ("__session_bucket",) if pipeline.window.merges else WINDOW
    keys = (f"__key_{position}" for position in range(len(pipeline.key)))
    return [*(f"__by_{name}" for name in by), "_class", *window, *keys, "__partition", "__position"]


def _add_grouping_columns(classified: "DataFrame", pipeline: Pipeline, by: tuple[str, ...]) -> "DataFrame":
    """Add the grouping columns, under names that no user's column has."""
    keys = [f"`{name}`" for name in pipeline.key]
    return select_expressions(
        classified,
        *(f"`{name}` AS `__by_{name}`" for name in by),
        *(f"IF(_class IN ({_WITHOUT_KEY}), NULL, {key}) AS `__key_{position}`" for position, key in enumerate(keys)),
        f"IF(_class = '{Class.FILTERED}', _partition, NULL) AS __partition",
        f"IF(_class IN ({_WITH_POSITIONS}), {_position_sql(pipeline)}, NULL) AS __position",
        *([_session_bucket_sql(pipeline.window.gap_micros)] if isinstance(pipeline.window, Sessions) else ()),
        "*",
    )


def _session_bucket_sql(gap: int) -> str:
    """Return the time bucket, as long as the gap, in which a row starts: all rows of a key in a bucket share a session.

    Grouping by it needs no sort, unlike Spark's `session_window`. It is 0 for rows without a window and for rows that
    are stored individually.
    """
    micros = "unix_micros(window_start)"
    has_no_bucket = f"_class IN ({_WITHOUT_KEY}, {_WITH_POSITIONS})"
    return f"IF({has_no_bucket}, 0L, {micros} - pmod({micros}, {gap}L)) AS __session_bucket"


def _position_sql(pipeline: Pipeline) -> str:
    fields = {"partition": "_partition", "offset": "_offset", "event_time": "_event_time", "reason": "_reason"}
    if pipeline.source.record_id is not None:
        fields["id"] = f"IF(_reason IS NULL, `{pipeline.source.record_id}`, NULL)"
    pairs = (f"'{name}', {value}" for name, value in fields.items())
    return f"named_struct({', '.join(pairs)})"
