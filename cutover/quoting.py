"""Texts and names inside SQL, for each engine that reads it. The one place that quotes."""

CSV_AS_WRITTEN = "header = true, comment = '', skip = 0, quote = '\"', escape = '\"', dateformat = '%Y-%m-%d'"
"""Options of DuckDB's `read_csv` that leave it nothing to drop or guess.

By itself it takes rows that begin with `#` for comments, skips lines until one looks like a head, takes single quotes
off where all of a column's values have them, and decides by the other rows whether 01/02/2020 is in January.
"""


def literal(text: str) -> str:
    """Put a text into single quotes for DuckDB, its own doubled."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Put a name into double quotes for DuckDB, its own doubled; any character is allowed."""
    return '"' + name.replace('"', '""') + '"'


def spark_literal(text: str) -> str:
    """Put a text into single quotes for Spark, where a backslash escapes quotes and itself."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def spark_identifier(name: str) -> str:
    """Put a name into backticks for Spark, its own doubled."""
    return "`" + name.replace("`", "``") + "`"
