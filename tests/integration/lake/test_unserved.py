"""Tables that serve no reader: listed with the reason to keep them, deleted once the policy's time has passed."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cutover.cli.app import main
from cutover.clock import SystemClock
from cutover.definition import Count, Lateness, Sum
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.policy import Stage
from cutover.errors import DefinitionError, LakeError
from cutover.lake.control import pins, served, versions
from cutover.lake.control.served import current_stage
from cutover.lake.integrity import table_weights
from cutover.lake.journal import SequenceConflictError
from cutover.lake.serving import vacuum
from cutover.lake.serving.vacuum import Unserved, delete_unserved, list_unserved
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, Sale, lake_of, write
from tests.support.history.journal_rows import record_stage
from tests.support.suite.standing_clock import StandingClock

SALES = tuple(Sale(hour=hour) for hour in range(3))
NOW = datetime.now(UTC)
LATER = StandingClock(NOW + timedelta(days=31))
MUCH_LATER = StandingClock(NOW + timedelta(days=65))
CHANGED = replace(PIPELINE, measures={"sales": Count(), "paid": Sum("amount")})
OWN = result_fingerprint(PIPELINE)


FIND_SHOWN_TIME = vacuum.find_shown_time


@pytest.fixture(autouse=True)
def _always_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report a record at every requested time."""
    monkeypatch.setattr(vacuum, "find_shown_time", lambda _settings, _names, _epochs, now: now)


def texts(unserved: list[Unserved]) -> list[tuple[str, str | None]]:
    return [(table.text, table.retained_because) for table in unserved]


AHEAD, RIGHT = LATER.now(), datetime.now(UTC) + timedelta(hours=1)
"""Times that a host whose clock is a month ahead records, and one whose clock is right."""


@pytest.mark.quick
@pytest.mark.parametrize(
    ("committed", "released", "is_deleted"),
    [
        pytest.param(RIGHT, RIGHT, False, id="only this host is ahead"),
        pytest.param(RIGHT, AHEAD, False, id="this host and that of the batch path are"),
        pytest.param(AHEAD, RIGHT, False, id="this host and that of the stream are"),
        pytest.param(AHEAD, AHEAD, True, id="the month has passed"),
    ],
)
def test_nothing_goes_before_epochs_and_another_record_show_the_time(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, committed: datetime, released: datetime, *, is_deleted: bool
) -> None:
    monkeypatch.setattr(vacuum, "find_shown_time", FIND_SHOWN_TIME)
    write(settings, lake_of(SALES))
    slower = replace(PIPELINE, lateness=Lateness(allowed="2 hours"))
    lake = lake_of(SALES, slower)
    newest = replace(lake.epochs[-1], processing_time=committed.isoformat())
    write(settings, replace(lake, epochs=(*lake.epochs[:-1], newest)), slower)
    pipeline_lake = PipelineLake(settings, slower)
    version = versions.find_current_version(pipeline_lake)
    assert version is not None
    pins.release_pin(settings, version, 1, holder="batch/x", now=released)

    ((text, reason),) = texts(list_unserved(pipeline_lake, LATER.now() + timedelta(days=1)))

    assert (text, reason is None) == (f"stream-0 of {OWN}", is_deleted)
    assert is_deleted or str(reason).startswith(
        "kept until an epoch is committed and something else is recorded after "
    )


def test_a_record_of_the_future_shows_nothing_once_another_follows_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vacuum, "find_shown_time", FIND_SHOWN_TIME)
    write(settings, lake_of(SALES))
    version = versions.find_current_version(PipelineLake(settings, PIPELINE))
    assert version is not None
    for at in (AHEAD, RIGHT):
        pins.release_pin(settings, version, 1, holder="batch/x", now=at)

    epochs = [replace(epoch, processing_time=AHEAD.isoformat()) for epoch in lake_of(SALES).epochs]

    assert vacuum.find_shown_time(settings, {PIPELINE.name}, epochs, AHEAD) == RIGHT


def test_what_is_served_is_never_listed(settings: Settings) -> None:
    write(settings, lake_of(SALES))

    lake = PipelineLake(settings, PIPELINE)
    assert list_unserved(lake, LATER.now()) == []
    assert delete_unserved(lake, LATER, why="old") == []


def test_a_definition_that_changed_leaves_tables_that_go_after_a_month(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    write(settings, lake_of(SALES, CHANGED), CHANGED)
    expected_texts = [(f"batch tables of {OWN}", "kept for 30 days"), (f"stream-0 of {OWN}", "kept for 30 days")]

    lake = PipelineLake(settings, CHANGED)
    assert texts(list_unserved(lake, NOW)) == expected_texts
    assert delete_unserved(lake, SystemClock(), why="old") == []
    assert len(delete_unserved(lake, LATER, why="a year old")) == len(expected_texts)

    assert list_unserved(lake, LATER.now()) == []
    assert [path.name for path in Path(PipelineLake(settings, PIPELINE).version_uri()).iterdir() if path.is_dir()] == []
    assert list(table_weights.list_table_changes(lake)) == []
    # The old definition comes back: nothing of it is missed, and no number is given twice.
    assert versions.find_current_version(PipelineLake(settings, PIPELINE)) is None
    assert list(table_weights.list_table_changes(PipelineLake(settings, PIPELINE))) == []
    assert versions.open_or_create(PipelineLake(settings, PIPELINE), SystemClock()).number == 1


def test_a_version_that_another_replaced_goes_and_a_held_one_stays(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    slower = replace(PIPELINE, lateness=Lateness(allowed="2 hours"))
    write(settings, lake_of(SALES, slower), slower)
    old = versions.find_current_version(PipelineLake(settings, PIPELINE))
    assert old is not None
    pins.pin(settings, old, 1, holder="savepoint/release", expires_at=LATER.now() + timedelta(days=1), now=NOW)

    lake = PipelineLake(settings, slower)
    assert texts(list_unserved(lake, LATER.now())) == [(f"stream-0 of {OWN}", "held by savepoint/release")]
    pins.release_pin(settings, old, 1, holder="savepoint/release", now=NOW)
    (deleted_table,) = delete_unserved(lake, LATER, why="old")

    assert (deleted_table.number, versions.list_stream_versions(lake)[0].number) == (0, 1)
    assert versions.read_next_version_number(lake) == len(["deleted", "serves"])


FOLLOWER = """from dataclasses import replace
from tests.integration.reconcile.lake_of import PIPELINE
SALES_2 = replace(PIPELINE, name="sales_2")
"""


@pytest.fixture
def replaced(settings: Settings, tmp_path: Path) -> Settings:
    """Another pipeline serves the name, and has an epoch."""
    (tmp_path / "sales_2.py").write_text(FOLLOWER, encoding="utf-8")
    settings_with_definitions = settings.model_copy(update={"pipelines": tmp_path})
    write(settings_with_definitions, lake_of(SALES))
    follower = replace(PIPELINE, name="sales_2")
    write(settings_with_definitions, lake_of(SALES, follower), follower)
    served.record_swap(
        settings_with_definitions, "sales", "sales_2", why="x", evidence="", clock=LATER, expected_sequence=0
    )
    return settings_with_definitions


def test_a_name_that_another_pipeline_serves_keeps_its_tables_for_a_way_back(replaced: Settings) -> None:
    lake = PipelineLake(replaced, PIPELINE)
    assert {reason for _, reason in texts(list_unserved(lake, LATER.now()))} == {"kept for 30 days"}

    assert len(delete_unserved(lake, MUCH_LATER, why="replaced")) == len(["batch", "stream-0"])

    with pytest.raises(LakeError, match="expected an epoch log under this definition, found none"):
        table_weights.check_epoch_log(lake, versions.find_current_version(lake))


def test_the_tables_of_a_name_whose_file_is_gone_can_go_too(
    replaced: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUTOVER_HOME", str(replaced.home))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(replaced.pipelines))
    capsys.readouterr()

    assert main(["unserved", "sales"]) == 0

    assert "sales: 2 tables that serve no one, 0 can be deleted" in capsys.readouterr().out


def test_a_name_that_is_swapped_back_meanwhile_keeps_its_tables(
    replaced: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = versions.record_deletion

    def swapped_back(*args: Any, **keywords: Any) -> None:
        real(*args, **keywords)
        served.record_swap(replaced, "sales", "sales", why="back", evidence="", clock=MUCH_LATER, expected_sequence=1)

    monkeypatch.setattr(versions, "record_deletion", swapped_back)

    lake = PipelineLake(replaced, PIPELINE)
    assert delete_unserved(lake, MUCH_LATER, why="replaced") == []

    current = versions.find_current_version(lake)
    assert current is not None
    assert (current.number, Path(current.uri).exists()) == (0, True)
    assert list(table_weights.list_table_changes(lake)) == []
    assert list_unserved(lake, MUCH_LATER.now()) == []


def test_a_deletion_that_is_taken_back_lets_nobody_else_serve(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(settings, lake_of(SALES))
    slower = replace(PIPELINE, lateness=PIPELINE.lateness)
    lake = PipelineLake(settings, slower)
    sequence = versions.read_next_version_sequence(lake)
    version_beside = versions.register(lake, SystemClock(), expected_sequence=sequence, parallel=True)
    write(settings.model_copy(update={"stream_version": 1}), lake_of(SALES, slower), slower)
    versions.promote_version(lake, 1, why="new", clock=SystemClock())
    real = versions.record_deletion

    def pinned(*args: Any, **keywords: Any) -> None:
        real(*args, **keywords)
        (old,) = [version for version in versions._read_versions(lake) if version.number == 0]
        pins.pin(settings, old, 1, holder="batch/now", expires_at=LATER.now() + timedelta(days=1), now=NOW)

    monkeypatch.setattr(versions, "record_deletion", pinned)

    assert delete_unserved(lake, LATER, why="old") == []

    current = versions.find_current_version(lake)
    assert (version_beside.number, None if current is None else current.number) == (1, 1)
    assert [version.number for version in versions.list_stream_versions(lake)] == [0, 1]


def test_what_a_deleted_version_had_replaced_does_not_come_back(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    lake = PipelineLake(settings, PIPELINE)
    sequence = versions.read_next_version_sequence(lake)
    versions.register(lake, SystemClock(), expected_sequence=sequence)
    sequence = versions.read_next_version_sequence(lake)
    versions.record_deletion(settings, PIPELINE.name, OWN, 1, why="x", clock=SystemClock(), expected_sequence=sequence)

    assert versions.find_current_version(lake) is None
    assert versions.open_or_create(lake, SystemClock()).number == len(["stream-0", "stream-1"])


def test_nothing_goes_while_nothing_stands_in_its_place(settings: Settings) -> None:
    write(settings, lake_of(SALES))  # the definition was edited since, and has not begun

    lake = PipelineLake(settings, CHANGED)
    assert {reason for _, reason in texts(list_unserved(lake, LATER.now()))} == {
        "nothing with an epoch serves in its place"
    }
    assert delete_unserved(lake, LATER, why="old") == []


def test_a_definition_that_comes_back_after_its_tables_went_begins_in_lambda(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    lake = PipelineLake(settings, PIPELINE)
    record_stage(lake, "KAPPA", at=NOW, result_fingerprint=OWN)
    write(settings, lake_of(SALES, CHANGED), CHANGED)
    assert current_stage(lake) is Stage.KAPPA

    delete_unserved(PipelineLake(settings, CHANGED), LATER, why="old")

    assert current_stage(lake) is Stage.LAMBDA


def test_what_a_fork_begins_with_stays_until_the_fork_is_filled(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    lake = PipelineLake(settings, PIPELINE)
    sequence = versions.read_next_version_sequence(lake)
    versions.register(lake, SystemClock(), expected_sequence=sequence, fork=versions.Fork(version=0, epoch=1))

    expected_texts = [(f"stream-0 of {OWN}", "needed by stream-1, which begins with it")]
    assert texts(list_unserved(lake, LATER.now())) == expected_texts


def test_who_is_let_serve_meanwhile_stays(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    write(settings, lake_of(SALES))
    slower = replace(PIPELINE, lateness=Lateness(allowed="2 hours"))
    write(settings, lake_of(SALES, slower), slower)
    real = vacuum.list_unserved

    def served_meanwhile(lake: PipelineLake, now: datetime) -> list[Unserved]:
        unserved_tables = real(lake, now)
        versions.register(lake, LATER, expected_sequence=versions.read_next_version_sequence(lake))
        return unserved_tables

    monkeypatch.setattr(vacuum, "list_unserved", served_meanwhile)
    with pytest.raises(SequenceConflictError):
        delete_unserved(PipelineLake(settings, slower), LATER, why="old")

    assert Path(versions.open_or_create(PipelineLake(settings, PIPELINE), LATER).uri).exists()


@pytest.mark.parametrize("steps_done", [0, 1, 2])
def test_a_deletion_that_was_killed_is_finished(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, steps_done: int
) -> None:
    """Killed before it removed anything, when it had taken the log of a table, or half of that log."""
    write(settings, lake_of(SALES))
    write(settings, lake_of(SALES, CHANGED), CHANGED)

    def killed(folder: str) -> None:
        (first_commit, *_) = sorted((Path(folder) / "_delta_log").glob("*.json"))
        if steps_done == 1:
            shutil.rmtree(first_commit.parent)
        elif steps_done:
            first_commit.unlink()
        raise KeyboardInterrupt

    lake = PipelineLake(settings, CHANGED)
    with monkeypatch.context() as patch:
        patch.setattr(vacuum, "_remove", killed)
        with pytest.raises(KeyboardInterrupt):
            delete_unserved(lake, LATER, why="old")

    assert len(delete_unserved(lake, LATER, why="again")) == len(["batch", "stream-0"])
    assert list_unserved(lake, LATER.now()) == []
    assert [path.name for path in Path(PipelineLake(settings, PIPELINE).version_uri()).iterdir() if path.is_dir()] == []


def test_a_table_that_cannot_be_read_stays_and_hinders_no_other(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    write(settings, lake_of(SALES, CHANGED), CHANGED)
    (log,) = (Path(PipelineLake(settings, PIPELINE).version_uri()) / "batch_index" / "_delta_log").glob("*0.json")
    log.write_text("{", encoding="utf-8")

    reasons_by_table = dict(texts(list_unserved(PipelineLake(settings, CHANGED), LATER.now())))

    assert str(reasons_by_table[f"batch tables of {OWN}"]).startswith("cannot be read: ")
    assert reasons_by_table[f"stream-0 of {OWN}"] is None


@pytest.mark.quick
def test_command_lists_and_asks_for_a_reason(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sales.py").write_text("from tests.integration.lake.test_unserved import CHANGED\n", encoding="utf-8")
    monkeypatch.setenv("CUTOVER_HOME", str(settings.home))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(tmp_path))
    write(settings, lake_of(SALES))
    write(settings, lake_of(SALES, CHANGED), CHANGED)
    capsys.readouterr()

    assert main(["unserved", "sales"]) == 0
    assert "2 tables that serve no one, 0 can be deleted: nothing to do." in capsys.readouterr().out
    assert main(["unserved", "sales", "--delete"]) == 2
    assert "`--delete` and `--why` together" in capsys.readouterr().err
    assert main(["unserved", "sales", "--delete", "--why", "old"]) == 0
    assert "0 deleted, 2 retained" in capsys.readouterr().out
    with pytest.raises(DefinitionError, match="expected a reason"):
        delete_unserved(PipelineLake(settings, CHANGED), LATER, why=" ")
