"""History of the installation in control tables: appended and read in order."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.policy import Stage
from cutover.errors import LakeError
from cutover.lake import journal
from cutover.lake.control import pins, restore
from cutover.lake.control.served import current_stage
from cutover.lake.control.versions import Version
from cutover.lake.integrity import table_weights
from cutover.lake.journal import Journal, JournalRow, list_row_types, make_row_schema
from cutover.lake.journal_rows import ComparisonRow, GateEvent, Loss, PinEvent
from cutover.lake.tables import delta
from cutover.lake.tables.checksums import read_once
from cutover.pipeline_lake import PipelineLake, control_uri
from cutover.settings import Settings
from tests.support.history.journal_rows import make_row

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
VERSION = Version(pipeline="p", result_fingerprint="f", lateness_fingerprint="l", number=0, uri="nowhere")


PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema="at timestamp, v bigint", event_time="at"),
    key=("v",),
    window=Fixed(hours=1),
    measures={"n": Count()},
)


def append(settings: Settings, stage: str, name: str = "p", *, expected_sequence: int | None = None) -> int:
    row = make_row(GateEvent, pipeline=name, stage=stage, result_fingerprint=result_fingerprint(PIPELINE))
    return Journal(settings, name, GateEvent).append(row, expected_sequence=expected_sequence)


def gate(settings: Settings, name: str = "p") -> list[GateEvent]:
    return Journal(settings, name, GateEvent).read()


def test_rows_of_one_pipeline_are_read_in_order(settings: Settings) -> None:
    for stage in ("LAMBDA", "SHADOW", "KAPPA"):
        append(settings, stage)
    append(settings, "LAMBDA", "other")

    rows = gate(settings)

    assert [(r.sequence, r.stage) for r in rows] == [(0, "LAMBDA"), (1, "SHADOW"), (2, "KAPPA")]


def test_one_run_reopens_a_table_only_after_a_change(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    open_table = delta.open_table

    def spy(uri: str, version: int | None = None) -> DeltaTable:
        opened.append(uri)
        return open_table(uri, version)

    append(settings, "SHADOW")
    monkeypatch.setattr(delta, "open_table", spy)
    with read_once():
        rows = [gate(settings) for _ in range(3)]
        assert len(opened) == 1
        rows[0].clear()  # the list is the caller's own
        assert rows[1] == rows[2] == gate(settings) != rows[0]
        assert gate(settings, "other") == []

        append(settings, "KAPPA")
        assert [row.stage for row in gate(settings)] == ["SHADOW", "KAPPA"]

        shutil.rmtree(control_uri(settings, "gate"))
        with pytest.raises(LakeError, match="its folder is missing"):
            gate(settings)


def test_each_run_reads_a_table_again(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    append(settings, "SHADOW")
    for _ in range(2):
        with read_once():
            assert gate(settings)
    monkeypatch.setattr(delta, "open_table", pytest.fail)

    with read_once(), pytest.raises(pytest.fail.Exception):
        gate(settings)


def test_a_table_deleted_before_its_rows_were_read_is_missing(settings: Settings) -> None:
    with read_once():
        assert Journal(settings, "p", Loss).read() == []
        append(settings, "SHADOW")
        shutil.rmtree(control_uri(settings, "losses"))

        with pytest.raises(LakeError, match="its folder is missing"):
            Journal(settings, "p", Loss).read()


def test_a_pipeline_without_history_is_in_lambda(settings: Settings) -> None:
    assert current_stage(PipelineLake(settings, PIPELINE)) is Stage.LAMBDA


def test_the_newest_row_is_the_stage(settings: Settings) -> None:
    append(settings, "SHADOW")

    assert current_stage(PipelineLake(settings, PIPELINE)) is Stage.SHADOW


def test_a_changed_definition_starts_in_lambda(settings: Settings) -> None:
    append(settings, "KAPPA")

    assert current_stage(PipelineLake(settings, replace(PIPELINE, where="v > 0"))) is Stage.LAMBDA


def test_the_slower_of_two_writers_is_rejected(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    append(settings, "SHADOW")
    stale = DeltaTable(control_uri(settings, "gate"))
    append(settings, "KAPPA")
    monkeypatch.setattr(delta, "ensure", lambda *_: stale)

    with pytest.raises(LakeError, match="appended row 1 first"):
        append(settings, "LAMBDA", expected_sequence=1)


def test_concurrent_appends_are_serialized(settings: Settings) -> None:
    def pin(number: int) -> None:
        pins.pin(settings, VERSION, number, holder="a", expires_at=NOW + timedelta(hours=1), now=NOW)

    pin(0)
    with ThreadPoolExecutor(4) as executor:
        list(executor.map(pin, range(1, 13)))

    assert pins.list_pinned_epochs(settings, VERSION, now=NOW) == tuple(range(13))
    assert [row.sequence for row in Journal(settings, PIPELINE.name, PinEvent).read()] == list(range(13))


def test_a_pin_released_and_taken_at_the_same_time_holds(settings: Settings) -> None:
    later = NOW + timedelta(hours=1)
    pins.pin(settings, VERSION, 7, holder="a", expires_at=later, now=NOW)
    pins.release_pin(settings, VERSION, 7, holder="a", now=NOW)
    pins.pin(settings, VERSION, 7, holder="a", expires_at=later, now=NOW)

    assert pins.list_pinned_epochs(settings, VERSION, now=NOW) == (7,)


def test_a_pin_holds_until_it_is_released(settings: Settings) -> None:
    later = NOW + timedelta(hours=1)
    pins.pin(settings, VERSION, 7, holder="a", expires_at=later, now=NOW)
    pins.pin(settings, VERSION, 9, holder="b", expires_at=later, now=NOW)
    assert pins.list_pinned_epochs(settings, VERSION, now=NOW) == (7, 9)

    pins.release_pin(settings, VERSION, 7, holder="a", now=NOW + timedelta(minutes=1))

    assert pins.list_pinned_epochs(settings, VERSION, now=NOW) == (9,)


def test_a_pin_ends_if_a_later_row_shows_its_expiry(settings: Settings) -> None:
    pins.pin(settings, VERSION, 7, holder="a", expires_at=NOW + HOUR, now=NOW)
    later = NOW + 2 * HOUR
    assert pins.list_pinned_epochs(settings, VERSION, now=later) == (7,)

    pins.release_pin(settings, VERSION, 9, holder="b", now=later)

    assert pins.list_pinned_epochs(settings, VERSION, now=later) == ()


def test_a_pin_ends_a_week_after_its_expiry_without_a_later_row(settings: Settings) -> None:
    pins.pin(settings, VERSION, 7, holder="a", expires_at=NOW + HOUR, now=NOW)
    end = NOW + HOUR + pins.UNCONFIRMED

    assert pins.list_pinned_epochs(settings, VERSION, now=end - timedelta(seconds=1)) == (7,)
    assert pins.list_pinned_epochs(settings, VERSION, now=end) == ()


@pytest.mark.parametrize(
    "off", [pytest.param(-2 * DAY, id="two days back"), pytest.param(1_000 * DAY, id="years ahead")]
)
def test_a_pin_holds_for_its_duration_with_any_writer_clock(settings: Settings, off: timedelta) -> None:
    pins.release_pin(settings, VERSION, 1, holder="c", now=NOW)
    pins.pin(settings, VERSION, 7, holder="a", expires_at=NOW + off + pins.LONGEST, now=NOW + off)
    assert pins.list_pinned_epochs(settings, VERSION, now=NOW + HOUR) == (7,)

    for hours in (2, 30):
        pins.release_pin(settings, VERSION, 1, holder="c", now=NOW + hours * HOUR)

    assert pins.list_pinned_epochs(settings, VERSION, now=NOW + 30 * HOUR) == ()


def test_a_reader_whose_clock_is_ahead_releases_no_pin(settings: Settings) -> None:
    pins.pin(settings, VERSION, 7, holder="a", expires_at=NOW + pins.LONGEST, now=NOW)
    pins.release_pin(settings, VERSION, 9, holder="b", now=NOW + HOUR)

    assert pins.list_pinned_epochs(settings, VERSION, now=NOW + 3 * DAY) == (7,)


def test_a_row_dated_in_the_future_expires_no_other_pin(settings: Settings) -> None:
    pins.pin(settings, VERSION, 7, holder="a", expires_at=NOW + pins.LONGEST, now=NOW)
    pins.release_pin(settings, VERSION, 9, holder="b", now=NOW + 1_000 * DAY)

    assert pins.list_pinned_epochs(settings, VERSION, now=NOW + HOUR) == (7,)


def test_a_table_of_another_release_is_rejected(settings: Settings) -> None:
    uri = control_uri(settings, "reconciliations")
    delta.ensure(uri, pa.schema([pa.field("run_id", pa.string()), pa.field("pipeline", pa.string())]))

    with pytest.raises(LakeError, match="`sequence` is missing"):
        Journal(settings, "p", ComparisonRow).read()


@pytest.mark.parametrize("row_type", list_row_types().values())
def test_a_table_without_a_folder_is_not_an_empty_table(settings: Settings, row_type: type[JournalRow]) -> None:
    append(settings, "SHADOW")
    shutil.rmtree(control_uri(settings, row_type.TABLE))

    removed = Journal(settings, "p", row_type)
    for ask in (removed.read, removed.next_sequence):
        with pytest.raises(LakeError, match=f"{row_type.TABLE}`: expected it next to the other") as refused:
            ask()
        assert refused.value.runbook == "ForeignWrite"
    with pytest.raises(LakeError, match="its folder is missing"):
        list(table_weights.list_table_changes(PipelineLake(settings, PIPELINE)))
    with pytest.raises(LakeError, match="its folder is missing"):
        list(restore.restore(settings))


def test_new_tables_are_not_reported_as_missing(settings: Settings) -> None:
    for name in ("gate", "pins"):
        delta.ensure(control_uri(settings, name), make_row_schema(list_row_types()[name]))

    types = list_row_types().values()
    assert [Journal(settings, "p", row_type).read() for row_type in types] == [[]] * len(types)


def test_no_stage_is_derived_from_an_incomplete_history(settings: Settings) -> None:
    for stage in ("SHADOW", "KAPPA"):
        append(settings, stage)
    DeltaTable(control_uri(settings, "gate")).delete("stage = 'KAPPA'")

    lake = PipelineLake(settings, PIPELINE)
    with pytest.raises(LakeError, match="expected every committed row, 1 missing"):
        current_stage(lake)
    list(restore.restore(settings))

    assert current_stage(lake) is Stage.KAPPA


@pytest.mark.parametrize("json_key", ['"version"', '"appId"'])
def test_a_log_whose_transactions_are_damaged_is_an_error_of_the_table(settings: Settings, json_key: str) -> None:
    append(settings, "SHADOW")
    entry = max(Path(control_uri(settings, "gate"), "_delta_log").glob("*.json"))
    lines = entry.read_text().splitlines()
    damaged = [
        line.replace(json_key, json_key.replace("e", "g", 1).replace("p", "q", 1)) if '"txn"' in line else line
        for line in lines
    ]
    entry.write_text("\n".join(damaged))

    with pytest.raises(LakeError, match="expected a log that can be read") as refused:
        journal.list_missing_sequences(delta.open_table(control_uri(settings, "gate")), GateEvent, "p")

    assert refused.value.runbook == "TableUnreadable"


def test_a_log_with_too_small_a_commit_count_is_damaged(settings: Settings) -> None:
    for stage in ("SHADOW", "KAPPA"):
        append(settings, stage)
    entry = max(Path(control_uri(settings, "gate"), "_delta_log").glob("*.json"))
    entry.write_text(entry.read_text().replace('"version":1', '"version":0'))

    with pytest.raises(LakeError, match="expected 1 as its latest sequence, its log has 0"):
        journal.list_missing_sequences(delta.open_table(control_uri(settings, "gate")), GateEvent, "p")
