"""Maps have no order: their entries are sorted before anything is compared, wherever in a column they stand."""

from duckdb.sqltypes import DuckDBPyType

from cutover.quoting import identifier


def sort_maps(value: str, kind: DuckDBPyType, depth: int = 0) -> str:
    """Return SQL of a value in which the entries of each map stand in the order of their keys.

    Args:
        value: SQL of the value.
        kind: Its type.
        depth: Of the lambda around it, so that each has a name of its own.
    """
    if not _holds_map(kind):
        return value
    parts, item = _parts(kind), f"part_{depth}"
    if kind.id in {"list", "array"}:
        return f"list_transform({value}, lambda {item}: {sort_maps(item, parts['child'], depth + 1)})"
    if kind.id == "map":
        key, held = (sort_maps(f"{item}.{name}", parts[name], depth + 1) for name in ("key", "value"))
        entries = f"list_transform(map_entries({value}), lambda {item}: {{'key': {key}, 'value': {held}}})"
        return f"map_from_entries(list_sort({entries}))"
    fields = ", ".join(
        f"{identifier(name)} := {sort_maps(f'{value}.{identifier(name)}', part, depth)}" for name, part in parts.items()
    )
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE struct_pack({fields}) END"


def _holds_map(kind: DuckDBPyType) -> bool:
    """Return whether a map stands anywhere in a type."""
    return kind.id == "map" or any(_holds_map(part) for part in _parts(kind).values())


def _parts(kind: DuckDBPyType) -> dict[str, DuckDBPyType]:
    """Return what a nested type is made of, by name: `child` of a list, `key` and `value` of a map, fields."""
    if kind.id not in {"list", "array", "map", "struct"}:
        return {}
    return {name: part for name, part in kind.children if isinstance(part, DuckDBPyType)}
