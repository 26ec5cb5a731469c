"""Results of a general transpiler for the expressions of the whitelist: `python -m tests.spec.transpiled`.

DuckDB runs each expression twice over the values on which engines disagree: as ours compiles it (which the tests in
this folder compare with Spark's values) and as sqlglot writes it from Spark's dialect.
"""

import sys
from typing import Any

import duckdb
import sqlglot

from cutover.definition.expressions.compiler import Expression, compile_expression
from tests.spec.nasty import TYPES, nasty_table
from tests.spec.test_expressions import OTHER_THAN_SPARK, TEXTS, _plain, _unsigned


def open_values() -> duckdb.DuckDBPyConnection:
    """Open a database whose table `nasty` holds the values."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("given", nasty_table())
    naive = "SELECT * REPLACE (CAST(p AS TIMESTAMP) AS p, CAST(q AS TIMESTAMP) AS q) FROM given"
    connection.execute(f"CREATE TEMP TABLE nasty AS {naive}")
    return connection


def judge(connection: duckdb.DuckDBPyConnection, compiled: Expression) -> str:
    """Return `same`, `another value` or `an error`, over the rows on which the expression does not fail."""
    transpiled = sqlglot.transpile(compiled.text, read="spark", write="duckdb")[0]
    sound = f"FROM nasty WHERE NOT {compiled.duckdb_failed} ORDER BY row"
    try:
        actual = connection.execute(f"SELECT {transpiled} {sound}").fetchall()
    except duckdb.Error:
        return "an error"
    expected: list[Any] = connection.execute(f"SELECT {compiled.duckdb} {sound}").fetchall()
    pairs = zip(expected, actual, strict=True)
    is_same = all(
        _plain(_unsigned(expected_value)) == _plain(_unsigned(other)) for (expected_value,), (other,) in pairs
    )
    return "same" if is_same else "another value"


def main() -> int:
    """Print how many expressions come out the same."""
    connection = open_values()
    counts = {"same": 0, "another value": 0, "an error": 0}
    for text in TEXTS:
        if text not in OTHER_THAN_SPARK:
            counts[judge(connection, compile_expression(text, TYPES))] += 1
    connection.close()
    sys.stdout.write(f"{sum(counts.values())} expressions: {counts}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
