"""Partial aggregates: one pass and one shuffle from classified rows to mergeable rows of every class."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.sessions import Sessions
from cutover.records.classes import WITH_POSITIONS, Class
from cutover.records.columns import aggregate, select

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOW = ("window_start", "window_end")
NO_AGGREGATES: Mapping[str, str] = MappingProxyType({})
_WITH_POSITIONS = ", ".join(f"'{name}'" for name in WITH_POSITIONS)
_WITHOUT_KEY = f"'{Class.MALFORMED}', '{Class.FILTERED}'"


def aggregate_partials(
    classified: "DataFrame", pipeline: Pipeline, *, by: tuple[str, ...] = (), further: Mapping[str, str] = NO_AGGREGATES
) -> "DataFrame":
    """Aggregate by class, window and key; of sessions, by stretches of time that surely lie in one session.

    A record that does not count keeps a row of its own for each of its windows: its position is part of the grouping,
    so that no group collects a list (which would leave code generation, and memory, behind).

    Args:
        classified: What `classify.classified` returns.
        pipeline: Key and measures.
        by: Further columns of `classified` to group by.
        further: Further aggregates: name to Spark SQL over the columns of `classified`.

    Returns:
        The columns of `by`, then the partial shape: `_class string`, `window_start timestamp`, `window_end timestamp`,
        the key columns, the state columns, `_n bigint` (records), `_positions` (an array of one struct for malformed,
        future, duplicate and late: `partition int`, `offset bigint`, `event_time timestamp`, `reason string`, and `id`
        where records have ids; null for accepted and filtered), `_partition int` (filtered only: they are counted by
        partition; left out where `by` names it), `_unknown bigint`, and the columns of `further`. Window, key and
        states are null for malformed and filtered, the position's event time for malformed. Unordered.
    """
    states = compile_pipeline(pipeline).states
    bounds = dict(zip(WINDOW, ("min(window_start)", "max(window_end)"), strict=True))
    aggregates = {
        **{f"__state_{position}": state.create for position, state in enumerate(states)},
        **(bounds if pipeline.window.merges else {}),
        "__n": "count(1)",
        "__unknown": "sum(_unknown)",
        **further,
    }
    grouped = aggregate(
        _inputs(classified, pipeline, by),
        _grouping(pipeline, by),
        [f"{text} AS `{name}`" for name, text in aggregates.items()],
    )
    return select(
        grouped,
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
        *(f"`{name}`" for name in further),
    )


def _grouping(pipeline: Pipeline, by: tuple[str, ...]) -> list[str]:
    """Return what rows of `_inputs` are grouped by; rows of a session are joined further where they are folded."""
    window = ("__stretch",) if pipeline.window.merges else WINDOW
    keys = (f"__key_{position}" for position in range(len(pipeline.key)))
    return [*(f"__by_{name}" for name in by), "_class", *window, *keys, "__partition", "__position"]


def _inputs(classified: "DataFrame", pipeline: Pipeline, by: tuple[str, ...]) -> "DataFrame":
    """Return the rows with what they are grouped by, under names that no user's column has."""
    keys = [f"`{name}`" for name in pipeline.key]
    return select(
        classified,
        *(f"`{name}` AS `__by_{name}`" for name in by),
        *(f"IF(_class IN ({_WITHOUT_KEY}), NULL, {key}) AS `__key_{position}`" for position, key in enumerate(keys)),
        f"IF(_class = '{Class.FILTERED}', _partition, NULL) AS __partition",
        f"IF(_class IN ({_WITH_POSITIONS}), {_position(pipeline)}, NULL) AS __position",
        *([_stretch(pipeline.window.gap_micros)] if isinstance(pipeline.window, Sessions) else ()),
        "*",
    )


def _stretch(gap: int) -> str:
    """Return the stretch of time, as long as the gap, that a row of a session begins in: all of its rows touch.

    To group by it needs no order, as Spark's own `session_window` does. Rows without a window, and those that are kept
    one by one, are not told apart by it.
    """
    micros = "unix_micros(window_start)"
    alone = f"_class IN ({_WITHOUT_KEY}, {_WITH_POSITIONS})"
    return f"IF({alone}, 0L, {micros} - pmod({micros}, {gap}L)) AS __stretch"


def _position(pipeline: Pipeline) -> str:
    fields = {"partition": "_partition", "offset": "_offset", "event_time": "_event_time", "reason": "_reason"}
    if pipeline.source.record_id is not None:
        fields["id"] = f"IF(_reason IS NULL, `{pipeline.source.record_id}`, NULL)"
    pairs = (f"'{name}', {value}" for name, value in fields.items())
    return f"named_struct({', '.join(pairs)})"
