"""Texts and names inside SQL, for each engine that reads it. The one place that quotes."""


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
