"""Connections for small looks share an engine, and nothing else; a process that forks takes none of it along."""

import subprocess
import sys

import duckdb
import pytest

from cutover.engine import queries

FORKS = """
import os, sys
from cutover.engine import queries

def ask():
    with queries.connect() as connection:
        return connection.execute("SELECT sum(range) FROM range(3_000_000)").fetchall()[0][0]

mine = ask()
child = os.fork()
if not child:
    sys.exit(0 if ask() == mine else 7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or (ask() != mine))
"""


def test_what_one_connection_makes_no_other_sees() -> None:
    with queries.connect() as one, queries.connect() as other:
        one.execute("CREATE TEMP VIEW here AS SELECT 1 AS n")

        with pytest.raises(duckdb.CatalogException):
            other.execute("FROM here")


def test_a_connection_is_in_utc_whatever_another_one_is_set_to() -> None:
    with queries.connect() as one, queries.connect() as other:
        one.execute("SET TimeZone = 'Asia/Kolkata'")
        found = [each.execute("SELECT current_setting('TimeZone')").fetchall() for each in (one, other)]

    assert found == [[("Asia/Kolkata",)], [("UTC",)]]


def test_a_child_of_a_process_that_has_asked_can_ask_and_end() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], timeout=60, check=False, capture_output=True)

    assert done.returncode == 0
