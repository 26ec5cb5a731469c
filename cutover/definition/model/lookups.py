"""Lookups: columns that a row takes from a dimension before anything else is made of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

DIMENSIONS, CONTROL = "dimensions", "_control"
"""Folders of the lake that hold its own dimensions and its history: no pipeline may have such a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Columns from a dimension: a Delta table with one row for each key.

    A row without a match takes nulls, and a null matches nothing; `where="... IS NOT NULL"` leaves such rows out. Each
    epoch is joined with one version of the table and records it; the batch path joins the same records with the same.
    """

    table: str  # a name under `<lake>/dimensions/`, or the absolute path or URI of any Delta table
    on: Mapping[str, str]  # column of the row -> column of the dimension
    columns: Mapping[str, str]  # column of the dimension that is taken -> its Spark type

    def __post_init__(self) -> None:
        for name in ("on", "columns"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def is_named(self) -> bool:
        """Return whether the table is one of the lake's own dimensions."""
        return "/" not in self.table
