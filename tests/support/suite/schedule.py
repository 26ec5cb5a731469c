"""Distribution of tests among the workers of `make test`: units that stay together, the longest first.

A unit is a file, since a fixture of a module is created once for its tests; in the files of `APART` each test is one,
and a folder of `TOGETHER` is one. A run writes the time of each unit to `build/durations.json`; `tests/durations.json`
is a copy of such a file, by which the next runs are ordered. It need not be new: a unit that is not there comes last.
"""

import json
import os
import zlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[3]
KNOWN = ROOT / "tests" / "durations.json"
TOOK = ROOT / "build" / "durations.json"
APART = frozenset(
    {
        "tests/faults/test_faults.py",
        "tests/integration/streaming/log/test_rewritten_log.py",
        "tests/property/test_paths_agree.py",
    }
)
"""Files whose tests share nothing that is dear to make, and which would be a unit of minutes."""

TOGETHER = ("tests/unit/house/", "tests/dags/")
"""Folders whose files share what is costly: the parsed sources of the repository; Airflow's database and its DAGs."""

_MEMORY = 4 << 30  # bytes of a worker with its Spark
_WAITING = 1  # workers beyond the cores: much of a test waits for a trigger, a lease, a server


def unit_of(test: str) -> str:
    """Return the unit of a test by its id."""
    file = test.partition("::")[0]
    folder = next((folder for folder in TOGETHER if file.startswith(folder)), None)
    return folder or (test if file in APART else file)


def workers() -> int:
    """Return how many workers this machine carries: by its cores and its memory."""
    cores = len(os.sched_getaffinity(0))
    return max(1, min(cores + _WAITING, int(psutil.virtual_memory().available / _MEMORY)))


def sort(items: list[pytest.Item]) -> None:
    """Sort the longest units first; the order within each stays."""
    took: dict[str, float] = json.loads(KNOWN.read_text(encoding="utf-8"))
    items.sort(key=lambda item: -took.get(unit_of(item.nodeid), 0.0))


def select_part(tests: Sequence[str], part: str) -> list[str]:
    """Return the tests of one part of a run, such as `3/8`; each unit is in one part, whatever else is collected."""
    number, _, count = part.partition("/")
    return [test for test in tests if zlib.crc32(unit_of(test).encode()) % int(count) == int(number) - 1]


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out units in the order in which the tests come."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


class Durations:
    """A plugin that adds up what each unit took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one part of a test: its fixtures, itself, their end."""
        self.seconds[unit_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the units that took a second or more, the longest first."""
        TOOK.parent.mkdir(exist_ok=True)
        longest = sorted(self.seconds.items(), key=lambda took: -took[1])
        long_units = {unit: round(seconds, 1) for unit, seconds in longest if seconds >= 1}
        TOOK.write_text(json.dumps(long_units, indent=0) + "\n", encoding="utf-8")
