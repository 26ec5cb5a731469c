"""Totals that overflow their type: DuckDB fails the whole query without naming the row, so it is searched for."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`, every text by `literal`

from collections.abc import Sequence

import duckdb

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.lake.tables.schemas import map_arrow_type_to_duckdb, map_spark_type_to_arrow
from cutover.quoting import identifier, literal

_LIMITS = {"BIGINT": 2.0**63, "INTEGER": 2.0**31, "HUGEINT": 2.0**127}
_ERRORS = (duckdb.OutOfRangeException, duckdb.ConversionException)
_ROUNDING = 1e-12  # of a sum of doubles: a total this close to its limit counts as an overflow


def find_overflow(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, relation: str, classes: Sequence[str], error: Exception
) -> LakeError | None:
    """Find the first total that overflows its type, and return an error with its window and key; None: no overflow.

    Args:
        connection: Connection on which the query failed.
        pipeline: The definition.
        relation: A view of partial shape.
        classes: Classes that were merged.
        error: Error of the query.
    """
    if not isinstance(error, _ERRORS):
        return None
    summed = [state for state in compile_pipeline(pipeline).states if state.merge == "sum"]
    class_list = ", ".join(literal(str(name)) for name in classes)
    keys = ", ".join(identifier(name) for name in ("window_start", *pipeline.key))
    queries = [
        f"SELECT {literal(s.column)}, {keys}, sum({identifier(s.column)}::DOUBLE) AS total FROM {identifier(relation)}"
        f" WHERE _class IN ({class_list}) GROUP BY ALL"
        f" HAVING abs(total) >= {_limit(map_arrow_type_to_duckdb(map_spark_type_to_arrow(s.type)))!r}"
        for s in summed
    ]
    if not queries:
        return None
    row = connection.execute(f"FROM ({' UNION ALL '.join(queries)}) ORDER BY ALL LIMIT 1").fetchone()
    if row is None:
        return None
    column, window, *key, total = row
    at = ", ".join(f"{name} {value!r}" for name, value in zip(pipeline.key, key, strict=True))
    kind = next(s.type for s in summed if s.column == column)
    msg = (
        f"Epoch log of {pipeline.name}, window {window.isoformat()}, {at or 'no key'}: expected a total of `{column}` "
        f"that fits into {kind}, got about {total:.3g}.\n"
        "Hint: no definition accepts such numbers: rows were changed by another writer. `cutover verify` names more."
    )
    return LakeError(msg, runbook="TableUnreadable")


def _limit(kind: str) -> float:
    if kind.startswith("DECIMAL"):
        precision, scale = (int(part) for part in kind.removeprefix("DECIMAL(").removesuffix(")").split(","))
        return 10.0 ** (precision - scale) * (1 - _ROUNDING)
    return _LIMITS.get(kind, float("inf")) * (1 - _ROUNDING)
