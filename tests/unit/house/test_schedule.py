"""Distribution of tests over workers: related tests stay together, and the longest start first."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.suite import schedule


def item(test: str) -> Any:
    return SimpleNamespace(nodeid=test)


@pytest.fixture(autouse=True)
def took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    durations_file = tmp_path / "durations.json"
    durations_file.write_text(json.dumps({"tests/b.py": 9.0, "tests/faults/test_faults.py::test[F2]": 30.0}))
    monkeypatch.setattr(schedule, "KNOWN", durations_file)
    monkeypatch.setattr(schedule, "TOOK", tmp_path / "build" / "durations.json")


def test_units_come_longest_first_and_the_order_within_them_stays() -> None:
    apart = "tests/faults/test_faults.py::test"
    items = [item(test) for test in ("tests/a.py::z", "tests/b.py::y", f"{apart}[F1]", "tests/b.py::x", f"{apart}[F2]")]

    schedule.sort(items)

    assert [item.nodeid for item in items] == [
        f"{apart}[F2]",
        "tests/b.py::y",
        "tests/b.py::x",
        "tests/a.py::z",
        f"{apart}[F1]",
    ]


def test_each_unit_is_in_one_part() -> None:
    tests = [f"tests/{file}.py::{test}" for file in "abcdefgh" for test in "xyz"]
    parts = [schedule.select_part(tests, f"{number}/3") for number in (1, 2, 3)]

    assert sorted(test for part in parts for test in part) == tests
    assert sum(len({schedule.unit_of(test) for test in part}) for part in parts) == 8


@pytest.mark.parametrize("file", sorted(schedule.APART))
def test_files_that_are_split_exist(file: str) -> None:
    assert (schedule.ROOT / file).is_file()
    assert schedule.unit_of(f"{file}::test[a::b]") == f"{file}::test[a::b]"
    assert schedule.unit_of("tests/unit/test_cli.py::test[a::b]") == "tests/unit/test_cli.py"
    assert schedule.unit_of("tests/unit/house/test_schedule.py::test[a::b]") == "tests/unit/house/"


def test_durations_of_units_are_written_longest_first() -> None:
    durations = schedule.Durations()
    for test, seconds in (
        ("tests/a.py::x", 1.0),
        ("tests/b.py::y", 1.5),
        ("tests/a.py::z", 2.0),
        ("tests/c.py::q", 0.4),
    ):
        durations.pytest_runtest_logreport(SimpleNamespace(nodeid=test, duration=seconds))  # type: ignore[arg-type]

    durations.pytest_sessionfinish()

    assert list(json.loads(schedule.TOOK.read_text()).items()) == [("tests/a.py", 3.0), ("tests/b.py", 1.5)]


@pytest.mark.parametrize(("cores", "gigabytes", "expected"), [(2, 24, 3), (2, 8, 2), (1, 3, 1), (16, 256, 17)])
def test_workers_are_limited_by_cores_and_memory(
    monkeypatch: pytest.MonkeyPatch, cores: int, gigabytes: int, expected: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: range(cores))
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=gigabytes << 30))

    assert schedule.workers() == expected
