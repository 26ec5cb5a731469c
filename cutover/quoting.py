"""Quoting of literals and identifiers in the SQL of each engine."""

CSV_AS_WRITTEN = "header = true, comment = '', skip = 0, quote = '\"', escape = '\"', dateformat = '%Y-%m-%d'"
"""Options of DuckDB's `read_csv` that disable its dialect detection.

By default it treats rows that start with `#` as comments, skips lines until one looks like a header, removes single
quotes if all values of a column have them, and infers from other rows whether 01/02/2020 is in January.
"""


def literal(text: str) -> str:
    """Quote a string literal for DuckDB; single quotes are doubled."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Quote an identifier for DuckDB; double quotes are doubled, any character is allowed."""
    return '"' + name.replace('"', '""') + '"'


def spark_literal(text: str) -> str:
    """Quote a string literal for Spark, which escapes quotes and backslashes with a backslash."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def spark_identifier(name: str) -> str:
    """Quote an identifier for Spark; backticks are doubled."""
    return "`" + name.replace("`", "``") + "`"
