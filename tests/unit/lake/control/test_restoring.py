"""Restoring rows of control tables that a foreign commit removed, and nothing else."""

import shutil
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cutover.cli.lake import restore_control
from cutover.errors import LakeError
from cutover.lake.control import pins, restore
from cutover.lake.control.versions import Version
from cutover.lake.integrity import foreign_commits
from cutover.lake.journal import Journal, list_missing_sequences, make_row_schema
from cutover.lake.journal_rows import PinEvent
from cutover.lake.tables import checksums, commits, data_files, delta
from cutover.output.console import wrap_command
from cutover.pipeline_lake import control_uri
from cutover.settings import Settings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("p", "q")


def pin(settings: Settings, name: str, epoch: int) -> None:
    version = Version(pipeline=name, result_fingerprint="f", lateness_fingerprint="l", number=0, uri="nowhere")
    pins.pin(settings, version, epoch, holder="me", expires_at=NOW + timedelta(hours=1), now=NOW)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an installation with six pins of two pipelines."""
    installation = Settings(home=tmp_path_factory.mktemp("pins"))
    for epoch in range(3):
        for name in NAMES:
            pin(installation, name, epoch)
    return installation.home


@pytest.fixture
def settings(template: Path, tmp_path: Path) -> Settings:
    """Return an installation of this test's own with these pins."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return Settings(home=tmp_path)


def table(settings: Settings) -> DeltaTable:
    return delta.open_table(control_uri(settings, "pins"))


def list_pins(settings: Settings) -> list[list[PinEvent]]:
    return [Journal(settings, name, PinEvent).read() for name in NAMES]


def is_complete(settings: Settings) -> bool:
    return foreign_commits.find_change(table(settings), None) is None and not any(
        list_missing_sequences(table(settings), PinEvent, name) for name in NAMES
    )


CHANGES: dict[str, Callable[[DeltaTable], object]] = {
    "all rows": lambda control_table: control_table.delete(),
    "rows of one pipeline": lambda control_table: control_table.delete("pipeline = 'p'"),
    "one row": lambda control_table: control_table.delete("pipeline = 'p' AND epoch = 1"),
    "other values": lambda control_table: control_table.update({"epoch": "9"}, predicate="pipeline = 'q'"),
    "files rewritten, then fewer rows": lambda control_table: (
        control_table.optimize.compact(),
        control_table.delete("epoch = 2"),
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("forgets", [False, True], ids=["by its log", "by its checkpoint"])
def test_removed_rows_are_restored_along_with_later_rows(
    settings: Settings, change: Callable[[DeltaTable], object], *, forgets: bool
) -> None:
    pins_before = list_pins(settings)
    change(table(settings))
    pin(settings, "p", 7)
    if forgets:
        table(settings).create_checkpoint()
        for entry in sorted(Path(control_uri(settings, "pins"), "_delta_log").glob("*.json"))[:-1]:
            entry.unlink()
    assert not is_complete(settings)

    (restored,) = restore.restore(settings)

    newer = list_pins(settings)
    assert ([newer[0][:-1], newer[1]], newer[0][-1].epoch) == (pins_before, 7)
    assert (restored.table, restored.lost, is_complete(settings)) == ("pins", {}, True)
    assert list(restore.restore(settings)) == []


def test_rows_in_files_before_and_after_a_compaction_are_restored_once(settings: Settings) -> None:
    pins_before = list_pins(settings)
    commits.compact(control_uri(settings, "pins"), files=2)
    table(settings).delete()

    list(restore.restore(settings))

    assert list_pins(settings) == pins_before


def test_a_file_that_was_never_committed_is_ignored(settings: Settings) -> None:
    row = asdict(Journal(settings, "p", PinEvent).read()[0]) | {"sequence": 3, "epoch": 99}
    rows = pa.Table.from_pylist([row], schema=make_row_schema(PinEvent))
    data_files.write_data_file(control_uri(settings, "pins"), rows, checksums.new_stem("rows"))
    pins_before = list_pins(settings)
    pin(settings, "p", 3)
    table(settings).delete("pipeline = 'p' AND epoch = 3")

    list(restore.restore(settings))

    assert [row.epoch for row in list_pins(settings)[0]] == [0, 1, 2, 3]
    assert list_pins(settings)[1] == pins_before[1]


def test_a_dry_run_writes_nothing(settings: Settings) -> None:
    table(settings).delete()
    version = table(settings).version()

    (planned,) = restore.restore(settings, dry_run=True)

    assert (planned.rows, table(settings).version()) == (6, version)


def test_rows_that_are_in_no_file_are_reported(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    table(settings).delete("pipeline = 'p'")
    table(settings).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    pin(settings, "p", 7)
    monkeypatch.setattr("cutover.cli.lake.load_settings", lambda: settings)

    with pytest.raises(LakeError, match="got none for pins of p: 3 commits"):
        restore_control()


def test_a_complete_installation_is_unchanged(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cutover.cli.lake.load_settings", lambda: settings)

    wrap_command(restore_control)()

    assert capsys.readouterr().out == "The control tables hold all that was written to them.\n"
