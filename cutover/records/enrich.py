"""The columns that rows take from dimensions, joined by Spark: after parsing, before anything is made of a row."""

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
    """A dimension as rows are joined with it."""

    frame: "DataFrame"  # key columns and taken columns, unique by key; with `places` also by `__version bigint`
    small: bool  # every task gets all of it; else both sides are dealt out by key
    places: "DataFrame | None" = None  # offsets `[__first, __next)` of a partition, disjoint, to `__of`, a version


Dimensions = Mapping[str, DimensionFrame]
NO_DIMENSIONS: Dimensions = MappingProxyType({})


def drop_lookups(pipeline: Pipeline) -> Pipeline:
    """Return the definition without anything that a dimension can change; as it is where it has no lookups.

    What is left says of each record that parsed in which windows it may count, whichever version it is joined with.
    """
    if not pipeline.lookups:
        return pipeline
    return replace(pipeline, lookups={}, where=None, derive={}, key=(), measures={"n": Count()})


def join_dimensions(rows: "DataFrame", pipeline: Pipeline, dimensions: Dimensions) -> "DataFrame":
    """Add the looked-up columns.

    Args:
        rows: `_partition`, `_offset`, the schema's columns and any others.
        pipeline: Its lookups.
        dimensions: By name of the lookup.

    Returns:
        The columns given, and those of the lookups: null where the key has no match or holds a null. As many rows.

    Raises:
        DefinitionError: A dimension was not handed in.
    """
    for name, lookup in pipeline.lookups.items():
        if name not in dimensions:
            msg = f"Pipeline `{pipeline.name}`: expected the dimension of lookup `{name}`, got none."
            raise DefinitionError(msg)
        rows = _join_dimension(rows, lookup, dimensions[name])
    return rows


def _join_dimension(rows: "DataFrame", lookup: Lookup, dimension: DimensionFrame) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 -- Spark's own alias; commands without Spark pay nothing

    row_columns = [f"`{name}`" for name in rows.columns]
    dimension_rows = dimension.frame.selectExpr(
        *(f"`{column}` AS `__on_{n}`" for n, column in enumerate(lookup.on.values())),
        *(f"`{column}` AS `__take_{n}`" for n, column in enumerate(lookup.columns)),
        *(() if dimension.places is None else (VERSION,)),
    )
    conditions = [f"`{column}` = `__on_{n}`" for n, column in enumerate(lookup.on)]
    if dimension.places is not None:
        rows, conditions = _add_version(rows, dimension.places), [*conditions, f"__of = {VERSION}"]
    looked_up = (f"`__take_{n}` AS `{column}`" for n, column in enumerate(lookup.columns))
    joined_rows = F.broadcast(dimension_rows) if dimension.small else dimension_rows
    return rows.join(joined_rows, F.expr(" AND ".join(conditions)), "left").selectExpr(*row_columns, *looked_up)


def _add_version(rows: "DataFrame", version_ranges: "DataFrame") -> "DataFrame":
    """Add `__of`: the version that the record at this place is joined with."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 -- as above

    in_range = F.expr("_partition = __partition AND _offset >= __first AND _offset < __next")
    columns = [f"`{name}`" for name in rows.columns]
    versioned = rows.join(F.broadcast(version_ranges), in_range, "left")
    no_version = "raise_error('a record lies in none of the offsets that are to be joined')"
    return versioned.selectExpr(*columns, f"coalesce(__of, CAST({no_version} AS bigint)) AS __of")
