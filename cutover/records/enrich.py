"""Lookup columns, joined from dimensions by Spark after parsing and before derived columns and `where`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from cutover.definition.measures.kinds import Count
from cutover.definition.model.joins import Lookup
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VERSION = "__version"
VERSION_RANGES = "__partition int, __first bigint, __next bigint, __of bigint"
"""Columns of `DimensionFrame.places`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionFrame:
    """Dimension that rows are joined with."""

    frame: "DataFrame"  # key and lookup columns, unique by key; by key and `__version bigint` if there are versions
    is_small: bool  # broadcast join; otherwise both sides are shuffled by key
    version_ranges: "DataFrame | None" = None  # disjoint offsets `[__first, __next)` of a partition -> version `__of`


Dimensions = Mapping[str, DimensionFrame]
NO_DIMENSIONS: Dimensions = MappingProxyType({})


def drop_lookups(pipeline: Pipeline) -> Pipeline:
    """Return the definition without everything that depends on a dimension; unchanged if it has no lookups.

    The result assigns each parsed record to the windows in which it may count, whichever version it is joined with.
    """
    if not pipeline.lookups:
        return pipeline
    return replace(pipeline, lookups={}, where=None, derive={}, key=(), measures={"n": Count()})


def join_dimensions(rows: "DataFrame", pipeline: Pipeline, dimensions: Dimensions) -> "DataFrame":
    """Add the looked-up columns.

    Args:
        rows: `_partition`, `_offset`, the schema's columns and any others.
        pipeline: Its lookups.
        dimensions: Dimensions by name of the lookup.

    Returns:
        The columns of `rows` and those of the lookups: null if the key has no match or contains a null. The number of
        rows does not change.

    Raises:
        DefinitionError: A dimension is missing.
    """
    for name, lookup in pipeline.lookups.items():
        if name not in dimensions:
            msg = f"Pipeline `{pipeline.name}`: expected the dimension of lookup `{name}`, got none."
            raise DefinitionError(msg)
        rows = _join_dimension(rows, lookup, dimensions[name])
    return rows


def _join_dimension(rows: "DataFrame", lookup: Lookup, dimension: DimensionFrame) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 -- Spark's name; other commands need not load it

    row_columns = [f"`{name}`" for name in rows.columns]
    dimension_rows = dimension.frame.selectExpr(
        *(f"`{column}` AS `__on_{n}`" for n, column in enumerate(lookup.on.values())),
        *(f"`{column}` AS `__take_{n}`" for n, column in enumerate(lookup.columns)),
        *(() if dimension.version_ranges is None else (VERSION,)),
    )
    conditions = [f"`{column}` = `__on_{n}`" for n, column in enumerate(lookup.on)]
    if dimension.version_ranges is not None:
        rows, conditions = _add_version(rows, dimension.version_ranges), [*conditions, f"__of = {VERSION}"]
    looked_up = (f"`__take_{n}` AS `{column}`" for n, column in enumerate(lookup.columns))
    joined_rows = F.broadcast(dimension_rows) if dimension.is_small else dimension_rows
    return rows.join(joined_rows, F.expr(" AND ".join(conditions)), "left").selectExpr(*row_columns, *looked_up)


def _add_version(rows: "DataFrame", version_ranges: "DataFrame") -> "DataFrame":
    """Add `__of`: the version that the record at this position is joined with."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 -- as above

    in_range = F.expr("_partition = __partition AND _offset >= __first AND _offset < __next")
    columns = [f"`{name}`" for name in rows.columns]
    versioned = rows.join(F.broadcast(version_ranges), in_range, "left")
    no_version = "raise_error('no dimension version covers the offset of a record')"
    return versioned.selectExpr(*columns, f"coalesce(__of, CAST({no_version} AS bigint)) AS __of")
