"""Detection of restored older copies of control tables, by the mark of their newest row."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from cutover.cli.lake import restore_control
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.policy import Stage
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake import sequence_marks
from cutover.lake.control import pins, served
from cutover.lake.control.served import current_stage
from cutover.lake.control.versions import Version
from cutover.lake.integrity import table_weights
from cutover.lake.journal import Journal, JournalRow, list_row_types
from cutover.lake.journal_rows import FollowedBatch, GateEvent, PinEvent, SwapEvent, VersionEvent
from cutover.pipeline_lake import PipelineLake, control_uri, sequence_marks_uri
from cutover.reconcile.verify.facts import rows
from cutover.settings import Settings
from tests.support.history.journal_rows import make_row
from tests.support.history.older_copy import restored_after
from tests.unit.lake.control.test_control import PIPELINE

NOW = datetime(2026, 1, 5, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
OTHER = replace(PIPELINE, name="other")


ROW_TYPES = list_row_types().values()


def append(settings: Settings, stage: str = "SHADOW", name: str = "p", row_type: type[JournalRow] = GateEvent) -> int:
    values = {"stage": stage} if row_type is GateEvent else {}
    if row_type not in {SwapEvent, FollowedBatch}:
        values["result_fingerprint"] = result_fingerprint(OTHER if name == OTHER.name else PIPELINE)
    return Journal(settings, name, row_type).append(make_row(row_type, pipeline=name, **values))


@pytest.mark.parametrize("everything", [True, False], ids=["all of _control", "the table"])
def test_no_stage_is_derived_from_an_older_copy(settings: Settings, *, everything: bool) -> None:
    append(settings, "KAPPA")
    folder = Path(control_uri(settings, "gate"))
    with restored_after(settings, str(folder.parent if everything else folder)):
        append(settings, "LAMBDA")

    with pytest.raises(LakeError, match=r"expected row 1, which is marked in .*, found none from 1 on") as refused:
        current_stage(PipelineLake(settings, PIPELINE))

    assert refused.value.runbook == "ForeignWrite"


@pytest.mark.parametrize("row_type", ROW_TYPES)
def test_an_older_copy_of_any_table_is_a_change_and_nothing_is_appended_to_it(
    settings: Settings, row_type: type[JournalRow]
) -> None:
    append(settings, row_type=row_type)
    with restored_after(settings, control_uri(settings, row_type.TABLE)):
        append(settings, row_type=row_type)
        append(settings, row_type=row_type)

    lake = PipelineLake(settings, PIPELINE)
    change, _ = next(table_weights.list_table_changes(lake))

    assert (change.uri, change.marked_sequence) == (control_uri(settings, row_type.TABLE), 2)
    assert "expected row 2, which is marked, got an older copy" in change.sentence
    assert rows.list_foreign(lake) == (change.sentence,)
    with pytest.raises(LakeError, match=r"expected row 2, .* found none from 1 on"):
        append(settings, row_type=row_type)


def test_foreign_writes_are_unknown_if_no_table_can_be_read(settings: Settings) -> None:
    append(settings)
    shutil.rmtree(control_uri(settings, "gate"))

    with pytest.raises(LakeError, match="its folder is missing"):
        rows.list_foreign(PipelineLake(settings, PIPELINE))


def test_pinned_epochs_are_not_derived_from_an_older_copy(settings: Settings) -> None:
    version = Version(pipeline="p", result_fingerprint="f", lateness_fingerprint="l", number=1, uri="memory")
    pin_epoch = partial(pins.pin, settings, version, expires_at=LATER, now=NOW)
    pin_epoch(3, holder="a")
    with restored_after(settings, control_uri(settings, "pins")):
        pin_epoch(4, holder="b")

    with pytest.raises(LakeError, match="`pins` of `p`: expected row 1"):
        pins.list_pinned_epochs(settings, version, now=NOW)
    assert [pin.holder for pin in Journal(settings, "p", PinEvent).read_available()] == ["a"]


def test_a_copy_from_before_the_first_row_is_an_older_one(settings: Settings) -> None:
    append(settings, name="other")
    with restored_after(settings, control_uri(settings, "gate")):
        append(settings)

    with pytest.raises(LakeError, match="expected row 0"):
        current_stage(PipelineLake(settings, PIPELINE))
    assert current_stage(PipelineLake(settings, OTHER)) is Stage.SHADOW


def test_pipelines_whose_newest_row_is_in_the_copy_continue(settings: Settings) -> None:
    append(settings, name="other")
    with restored_after(settings, control_uri(settings, "gate")):
        append(settings, name="p")

    assert append(settings, name="other") == 1
    assert len(Journal(settings, "other", GateEvent).read()) == 2


def test_the_newest_copy_repairs_the_table(settings: Settings) -> None:
    append(settings)
    folder = control_uri(settings, "gate")
    newest = settings.home / "newest"
    with restored_after(settings, folder):
        append(settings, "KAPPA")
        shutil.copytree(folder, newest)
    shutil.rmtree(folder)
    shutil.move(newest, folder)

    assert current_stage(PipelineLake(settings, PIPELINE)) is Stage.KAPPA


def test_restore_control_does_not_accept_an_older_copy_as_complete(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cutover.cli.lake.load_settings", lambda: settings)
    append(settings)
    with restored_after(settings, control_uri(settings, "gate")):
        append(settings)

    with pytest.raises(LakeError, match="got none for gate of p: 1 commit"):
        restore_control()


def test_restore_control_knows_pipelines_of_which_the_copy_holds_no_row(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cutover.cli.lake.load_settings", lambda: settings)
    append(settings, name="other")
    with restored_after(settings, control_uri(settings, "gate")):
        append(settings)

    with pytest.raises(LakeError, match="got none for gate of p: 1 commit"):
        restore_control()


def test_a_rejected_append_creates_no_table(settings: Settings) -> None:
    append(settings, row_type=PinEvent)
    folder = Path(control_uri(settings, "pins")).parent
    shutil.rmtree(folder)

    with pytest.raises(LakeError, match="expected row 0"):
        append(settings, row_type=PinEvent)

    assert not folder.exists()


def test_restore_control_distinguishes_missing_tables_from_a_new_lake(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cutover.cli.lake.load_settings", lambda: settings)
    append(settings)
    shutil.rmtree(Path(control_uri(settings, "gate")).parent)

    with pytest.raises(LakeError, match="got none for gate of p: 1 commit"):
        restore_control()


@pytest.mark.parametrize("name", ["007", "x", "9" * 19])
def test_a_foreign_mark_is_ignored(settings: Settings, name: str) -> None:
    append(settings)
    Path(sequence_marks_uri(settings, "p", "gate"), name).touch()
    Path(sequence_marks_uri(settings, "p", "gate"), "5").mkdir()

    assert append(settings) == 1


def test_a_forged_mark_is_counted_but_not_listed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutover.cli.lake.load_settings", lambda: settings)
    append(settings)
    Path(sequence_marks_uri(settings, "p", "gate"), "9" * 15).touch()

    with pytest.raises(LakeError, match="gate of p: 999,999,999,999,999 commits"):
        restore_control()


def test_no_stage_is_derived_from_versions_before_a_deletion(settings: Settings) -> None:
    append(settings, "KAPPA")
    versions_of = control_uri(settings, "versions")
    with restored_after(settings, versions_of):
        append(settings, row_type=VersionEvent)

    lake = PipelineLake(settings, PIPELINE)
    with pytest.raises(LakeError, match="`versions` of `p`: expected row 0"):
        current_stage(lake)
    assert current_stage(lake, way_back=True) is Stage.KAPPA


def test_a_name_missing_in_an_older_copy_of_swaps_is_not_skipped(settings: Settings) -> None:
    append(settings, row_type=PinEvent)
    with restored_after(settings, control_uri(settings, "swaps")):
        Journal(settings, "p", SwapEvent).append(make_row(SwapEvent, served_by="q"))

    with pytest.raises(LakeError, match="`swaps` of `p`: expected row 0"):
        served.list_served_names(settings, "q")


def test_only_the_newest_mark_remains_and_a_missing_one_is_no_failure(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        append(settings)
    place = Path(sequence_marks_uri(settings, "p", "gate"))
    assert [file.name for file in place.iterdir()] == ["2"]

    shutil.rmtree(place)
    place.write_text("no folder")
    warned: list[str] = []
    monkeypatch.setattr(log, "warning", lambda event, **_: warned.append(event))
    sequence_marks.write_sequence_mark(settings, "gate", "p", 3)

    assert warned == ["sequence_not_marked"]


def test_a_late_mark_does_not_hide_a_newer_one(settings: Settings) -> None:
    sequence_marks.write_sequence_mark(settings, "gate", "p", 7)
    sequence_marks.write_sequence_mark(settings, "gate", "p", 6)

    assert sequence_marks.read_latest(settings, "gate", "p") == 7
    assert sequence_marks.read_latest(settings, "gate", "q") == sequence_marks.NONE
