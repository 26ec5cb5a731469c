"""Sentences on the types that `cutover diff` inferred and the differences that it tolerated."""

from collections.abc import Iterator, Sequence

from cutover.reconcile.result.finding import EqualWithin, Origin, TableReading
from cutover.reconcile.result.text import count_noun

_NAMES_SHOWN = 8
_ORIGINS = {
    Origin.INFERRED: "inferred",
    Origin.OTHER_SIDE: "as on the other side",
    Origin.STATED: "stated",
}


def describe_readings(readings: Sequence[TableReading]) -> Iterator[str]:
    """Yield, for each table without types, the dialect of its files and its columns by type."""
    for table in readings:
        dialect = ", ".join(f"{name} {value}" for name, value in table.dialect.items())
        if dialect:
            yield f"{table.side}: CSV with {dialect}"
        groups: dict[tuple[Origin, str], list[str]] = {}
        for column in table.columns:
            groups.setdefault((column.origin, column.type), []).append(column.column)
        for (origin, kind), names in groups.items():
            more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
            yield f"{table.side}: {kind}, {_ORIGINS[origin]}: {', '.join(names[:_NAMES_SHOWN])}{more}"


def describe_equal_within(counts: Sequence[EqualWithin]) -> Iterator[str]:
    """Yield a sentence for each column on the number of cells that are equal only within its tolerance."""
    for count in counts:
        hint = f"; `--tolerance {count.column}=0` compares exactly" if count.is_default else ""
        yield f"{count_noun(count.cells, 'cell')} of {count.column} equal within {count.tolerance}{hint}"
