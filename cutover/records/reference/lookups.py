"""Lookups in plain Python: each dimension is a dictionary by key."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.log.kafka import RawRecord

DimensionRows = Mapping[tuple[Any, ...], Mapping[str, Any]]
"""Key (values of `on`, in its order) -> lookup columns; timestamps in microseconds since 1970."""

Dimensions = Mapping[str, DimensionRows]  # by name of the lookup
DimensionsAt = Callable[[RawRecord], Dimensions]
"""Function from a record to the dimensions that it is joined with: those of its epoch."""

NO_DIMENSIONS: Dimensions = MappingProxyType({})


def no_dimensions(record: RawRecord) -> Dimensions:
    """Return an empty mapping, for pipelines without lookups."""
    del record
    return NO_DIMENSIONS


def look_up_columns(pipeline: Pipeline, values: Mapping[str, Any], dimensions: Dimensions) -> dict[str, Any]:
    """Add the lookup columns to a record's values; null if no key matches.

    Raises:
        DefinitionError: A dimension is missing.
    """
    columns = dict(values)
    for name, lookup in pipeline.lookups.items():
        if name not in dimensions:
            msg = f"Pipeline `{pipeline.name}`: expected the dimension of lookup `{name}`, got none."
            raise DefinitionError(msg)
        key = tuple(columns[column] for column in lookup.on)
        match = {} if None in key else dimensions[name].get(key, {})
        columns |= {column: match.get(column) for column in lookup.columns}
    return columns
