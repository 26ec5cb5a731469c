"""Checks of lookups: names and types, without reading the dimensions."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches

from cutover.definition.checks.measures import reject
from cutover.definition.model.joins import Lookup
from cutover.definition.model.topic import check_name, normalize_type
from cutover.errors import DefinitionError


def check(lookups: Mapping[str, Lookup], schema: Mapping[str, str], keywords: Collection[str]) -> None:
    """Reject lookups that cannot be joined.

    Args:
        lookups: Lookups in the order of their joins.
        schema: Name to type of the topic's columns.
        keywords: Reserved words of SQL, in lower case.

    Raises:
        DefinitionError: The message names the first invalid field.
    """
    column_types = dict(schema)
    for name, lookup in lookups.items():
        field = f"lookups.{name}"
        check_name(name, of="lookups")
        if not isinstance(lookup, Lookup):
            reject(field, "Lookup(table=..., on={...}, columns={...})", repr(lookup)[:80])
        _check_table(field, lookup)
        _check_on(field, lookup, column_types)
        column_types |= _check_columns(field, lookup, column_types, keywords)


def _check_table(field: str, lookup: Lookup) -> None:
    if lookup.is_named:
        check_name(lookup.table, of=f"{field}.table")
    elif "://" not in lookup.table and not lookup.table.startswith("/"):
        hint = "a plain name means `<lake>/dimensions/<name>`"
        reject(f"{field}.table", "a name, an absolute path or a URI", f"`{lookup.table[:80]}`", hint)


def _check_on(field: str, lookup: Lookup, column_types: Mapping[str, str]) -> None:
    if not lookup.on:
        reject(f"{field}.on", "at least one column of the row, such as {'ad_id': 'ad_id'}", "none")
    for column, right_column in lookup.on.items():
        if column not in column_types:
            close = get_close_matches(str(column), list(column_types), n=1)
            hint = f"did you mean `{close[0]}`?" if close else "derived columns are computed after lookups"
            reject(f"{field}.on", f"a column of {', '.join(column_types)}", f"`{column}`", hint)
        if column_types[column] == "double":
            reject(f"{field}.on", "a type with exact equality", f"`{column}` of type double")
        check_name(right_column, of=f"{field}.on")
    if len(set(lookup.on.values())) < len(lookup.on):
        reject(f"{field}.on", "each column of the dimension once", ", ".join(lookup.on.values()))


def _check_columns(
    field: str, lookup: Lookup, column_types: Mapping[str, str], keywords: Collection[str]
) -> dict[str, str]:
    """Check the joined columns, and map each to its type."""
    if not lookup.columns:
        reject(f"{field}.columns", "at least one column of the dimension with its type", "none")
    lower_names = {name.lower() for name in column_types}
    for name in lookup.columns:
        check_name(name, of=f"{field}.columns")
        if name.lower() in lower_names:
            hint = "give it another name in the dimension"
            reject(f"{field}.columns", "a name that no column of the row has yet", f"`{name}`", hint)
        if name.lower() in keywords:
            reject(f"{field}.columns", "a name that is not a reserved word of SQL", f"`{name}`")
        lower_names.add(name.lower())
    return {name: _normalize_type(f"{field}.columns.{name}", kind) for name, kind in lookup.columns.items()}


def _normalize_type(field: str, kind: str) -> str:
    try:
        return normalize_type(kind)
    except DefinitionError as error:
        msg = f"{field}: {error}"
        raise DefinitionError(msg) from None
