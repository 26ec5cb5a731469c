"""Connections for small queries: they share only an engine, and survive a fork."""

import subprocess
import sys

import duckdb
import pytest

from cutover.engine import queries

FORKS = """
import os, sys
from cutover.engine import queries

def ask():
    with queries.open_duckdb() as connection:
        return connection.execute("SELECT sum(range) FROM range(3_000_000)").fetchall()[0][0]

mine = ask()
child = os.fork()
if not child:
    sys.exit(0 if ask() == mine else 7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or (ask() != mine))
"""


def test_objects_of_one_connection_are_invisible_to_others() -> None:
    with queries.open_duckdb() as connection, queries.open_duckdb() as other:
        connection.execute("CREATE TEMP VIEW here AS SELECT 1 AS n")

        with pytest.raises(duckdb.CatalogException):
            other.execute("FROM here")


def test_a_connection_is_in_utc_regardless_of_others() -> None:
    with queries.open_duckdb() as connection, queries.open_duckdb() as other:
        connection.execute("SET TimeZone = 'Asia/Kolkata'")
        time_zones = [
            session.execute("SELECT current_setting('TimeZone')").fetchall() for session in (connection, other)
        ]

    assert time_zones == [[("Asia/Kolkata",)], [("UTC",)]]


def test_a_forked_child_can_query_and_exit() -> None:
    process = subprocess.run([sys.executable, "-c", FORKS], timeout=60, check=False, capture_output=True)

    assert process.returncode == 0
