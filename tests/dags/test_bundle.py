"""Copies of DAG files are newer than their last parse once a definition changed, and at no other time."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from cutover.infra.airflow import bundle as module
from cutover.infra.airflow.bundle import TOUCH_DELAYS, DefinitionsBundle
from cutover.infra.airflow.instance import DAGS

DEFINITION = '"""A definition; only its file matters here."""\n'


class Clock:
    """Monotonic seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def pipelines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "orders.py").write_text(DEFINITION, encoding="utf-8")
    monkeypatch.setenv("CUTOVER_PIPELINES", str(folder))
    monkeypatch.setenv("CUTOVER_HOME", str(tmp_path / "home"))
    return folder


@pytest.fixture
def bundle(tmp_path: Path, pipelines: Path, clock: Clock) -> DefinitionsBundle:
    definitions_bundle = DefinitionsBundle(name="dags-folder", source=str(DAGS), path=str(tmp_path / "home" / "dags"))
    definitions_bundle.initialize()
    definitions_bundle.refresh()
    assert pipelines.is_dir()
    assert clock.now == 1_000
    return definitions_bundle


def times(bundle: DefinitionsBundle) -> set[int]:
    return {copy.stat().st_mtime_ns for copy in bundle.path.glob("*.py")}


def is_touched(bundle: DefinitionsBundle, clock: Clock, *, at: float) -> bool:
    times_before = times(bundle)
    clock.now = at
    bundle.refresh()
    return max(times(bundle)) > max(times_before)


def test_every_dag_file_is_copied_and_its_helpers_are_not(bundle: DefinitionsBundle) -> None:
    names = {copy.name for copy in bundle.path.glob("*.py")}

    assert names == {"broken_definitions.py"} | {file.name for file in DAGS.glob("*_pipelines.py")}
    assert all((bundle.path / name).read_bytes() == (DAGS / name).read_bytes() for name in names)


def test_nothing_is_touched_while_no_definition_changes(bundle: DefinitionsBundle, clock: Clock) -> None:
    assert not any(is_touched(bundle, clock, at=1_000.0 + seconds) for seconds in (5, 10, 600, 86_400))


@pytest.mark.parametrize("change", ["write", "edit", "move", "remove", "helper", "sample"])
def test_a_changed_definition_touches_all_copies(
    bundle: DefinitionsBundle, clock: Clock, pipelines: Path, change: str
) -> None:
    orders = pipelines / "orders.py"
    changes: dict[str, Callable[[], object]] = {
        "write": lambda: (pipelines / "new.py").write_text(DEFINITION, encoding="utf-8"),
        "edit": lambda: orders.write_text(DEFINITION + "x = 1\n", encoding="utf-8"),
        "move": lambda: orders.rename(pipelines / "sales.py"),
        "remove": orders.unlink,
        "helper": lambda: _write(pipelines / "shared" / "columns.py"),
        "sample": lambda: _write(pipelines.parent / "home" / "samples.json"),
    }
    changes[change]()

    assert is_touched(bundle, clock, at=1_005.0)


def test_copies_are_touched_again_for_parses_that_began_before_the_change(
    bundle: DefinitionsBundle, clock: Clock, pipelines: Path
) -> None:
    (pipelines / "new.py").write_text(DEFINITION, encoding="utf-8")
    touched = [seconds for seconds in range(0, 90, 5) if is_touched(bundle, clock, at=1_000.0 + seconds)]

    assert touched == [*TOUCH_DELAYS]
    assert all(later > earlier for earlier, later in pairwise(TOUCH_DELAYS))


def test_a_copy_that_has_no_dag_file_any_more_is_removed(bundle: DefinitionsBundle) -> None:
    stray = bundle.path / "old_pipelines.py"
    stray.write_text(DEFINITION, encoding="utf-8")
    bundle.refresh()

    assert not stray.exists()


def _write(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(DEFINITION, encoding="utf-8")
