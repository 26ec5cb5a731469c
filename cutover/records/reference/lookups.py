"""Lookups in plain Python: a dictionary by key for each dimension."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.log.kafka import RawRecord

Rows = Mapping[tuple[Any, ...], Mapping[str, Any]]
"""Key (values of `on`, in its order) -> taken columns; timestamps in microseconds since 1970."""

Dimensions = Mapping[str, Rows]  # by name of the lookup
At = Callable[[RawRecord], Dimensions]
"""The dimensions that a record is joined with: those of its epoch."""

NONE: Dimensions = MappingProxyType({})


def nothing(record: RawRecord) -> Dimensions:
    """Return no dimension, which is right for a pipeline without lookups."""
    del record
    return NONE


def look_up(pipeline: Pipeline, values: Mapping[str, Any], dimensions: Dimensions) -> dict[str, Any]:
    """Return a record's values and those that it takes from dimensions; null where nothing matches.

    Raises:
        DefinitionError: A dimension was not handed in.
    """
    found = dict(values)
    for name, lookup in pipeline.lookups.items():
        if name not in dimensions:
            msg = f"Pipeline `{pipeline.name}`: expected the dimension of lookup `{name}`, got none."
            raise DefinitionError(msg)
        key = tuple(found[column] for column in lookup.on)
        match = {} if None in key else dimensions[name].get(key, {})
        found |= {column: match.get(column) for column in lookup.columns}
    return found
