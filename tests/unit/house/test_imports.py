"""Imports of each command: an unneeded heavy library would slow down every call."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "airflow",
    "confluent_kafka",
    "deltalake",
    "duckdb",
    "great_expectations",
    "httpx",
    "jinja2",
    "numpy",
    "pandas",
    "pyarrow",
    "pyspark",
    "sqlglot",
    "structlog",
}
ROOMS = {"batch", "infra", "reconcile", "streaming"}
SEEN = """
import sys
from cutover.cli.app import main
codes = [main(command.split()) for command in sys.argv[1:]]
print(*sorted(sys.modules))
sys.exit(max(codes))
"""
UNUSED = {"airflow", "great_expectations", "pandas", "pyspark", "streaming", "batch"}


def imported(home: Path, *commands: str) -> set[str]:
    """Return the top modules that a process has imported once its commands have ended well."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CUTOVER_")}
    process = subprocess.run(
        [sys.executable, "-c", SEEN, *commands],
        env=environment | {"CUTOVER_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.removeprefix("cutover.").partition(".")[0] for name in process.stdout.splitlines()[-1].split()}


@pytest.mark.parametrize(
    ("command", "needs"),
    [("--help", set()), ("lint", {"sqlglot"}), ("status", {"infra", "sqlglot"})],
)
def test_a_quick_command_imports_only_what_it_needs(tmp_path: Path, command: str, needs: set[str]) -> None:
    assert needs == imported(tmp_path, command) & (HEAVY | ROOMS)


def test_a_reader_of_tables_imports_no_engine_of_the_paths(tmp_path: Path) -> None:
    assert not imported(tmp_path, "sql --help", "watch --help", "gate --help") & UNUSED
