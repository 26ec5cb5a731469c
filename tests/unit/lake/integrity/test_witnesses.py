"""Witnesses of epochs: marks, batch runs, reconciliations and pins are lower bounds for the epoch log."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.errors import LakeError
from cutover.lake.control import pins
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity import high_water
from cutover.lake.integrity.high_water import Witness
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import ComparisonRow
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from tests.support.history.journal_rows import make_row

PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema="at timestamp, v bigint", event_time="at"),
    key=("v",),
    window=Fixed(hours=1),
    measures={"n": Count()},
)
SEVENTH = EpochRecord(
    epoch=7,
    run_id="pid-1-one",
    topic="t",
    topic_id="A",
    cluster_id="C",
    start={0: 0},
    end={0: 10, 1: 4},
    max_event={},
    watermark_before=None,
    watermark_after=None,
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def version(tmp_path: Path) -> Version:
    uri = tmp_path / "a folder" / "stream-0" / "stream"
    uri.mkdir(parents=True)
    return Version(pipeline="p", result_fingerprint="f", lateness_fingerprint="l", number=0, uri=str(uri))


def list_contradictions(
    witnesses: list[Witness], record: EpochRecord | None = SEVENTH, table_version: int | None = 9
) -> list[str]:
    records = [] if record is None else [record]
    return [*high_water.find_contradictions(witnesses, records, name="p", table_version=table_version)]


def test_every_witness_of_an_epoch_of_this_version_is_listed(settings: Settings, version: Version) -> None:
    row = make_row(ComparisonRow, result_fingerprint="f", stream_version=0, at=NOW, epoch=5)
    result = '{"seal": {"holds": true}, "tables": {"stream": 8}}'
    journal = Journal(settings, "p", ComparisonRow)
    journal.append(replace(row, run_id="r1", result=result))
    journal.append(replace(row, run_id="other", stream_version=1, epoch=99))
    journal.append(replace(row, run_id="none", epoch=None))
    pins.pin(settings, version, 6, holder="h", expires_at=NOW, now=NOW)
    high_water.write_note(version, SEVENTH, 9)

    assert high_water.list_witnesses(PipelineLake(settings, PIPELINE), version) == (
        Witness(who="the driver's note", epoch=7, end={0: 10, 1: 4}, table_version=9),
        Witness(who="reconciliation r1", epoch=5, table_version=8),
        Witness(who="the pin of h", epoch=6),
    )


def test_reconciliation_with_a_broken_seal_witnesses_no_table_version(settings: Settings, version: Version) -> None:
    """A broken seal names the version at which a damaged log opened, and an epoch that is not in the log."""
    result = '{"seal": {"holds": false}, "tables": {"stream": 5}}'
    values = {"result_fingerprint": "f", "stream_version": 0, "at": NOW, "epoch": 7, "run_id": "r1", "result": result}
    Journal(settings, "p", ComparisonRow).append(make_row(ComparisonRow, **values))

    assert high_water.list_witnesses(PipelineLake(settings, PIPELINE), version) == (
        Witness(who="reconciliation r1", epoch=7),
    )


def test_mark_is_replaced_by_the_next_one(version: Version, settings: Settings) -> None:
    high_water.write_note(version, SEVENTH, 9)
    high_water.write_note(version, replace(SEVENTH, epoch=8), 10)

    assert [w.epoch for w in high_water.list_witnesses(PipelineLake(settings, PIPELINE), version)] == [8]
    assert [file.name for file in Path(version.uri).parent.iterdir() if file.is_file()] == [high_water.NOTE]


def test_mark_of_another_version_is_ignored(version: Version, settings: Settings) -> None:
    high_water.write_note(replace(version, number=1), SEVENTH, 9)

    assert high_water.list_witnesses(PipelineLake(settings, PIPELINE), version) == ()


@pytest.mark.parametrize("text", ["", "{half", "[]", "null", "\0\0", '{"app_id": "p/f/stream-0", "end": 5}'])
def test_unreadable_mark_is_named(version: Version, settings: Settings, text: str) -> None:
    note = Path(version.uri).parent / high_water.NOTE
    note.write_text(text, encoding="utf-8")

    lake = PipelineLake(settings, PIPELINE)
    with pytest.raises(LakeError, match=r"newest\.json") as refused:
        high_water.list_witnesses(lake, version)

    assert refused.value.runbook == "TableUnreadable"
    assert "`cutover stream p`" in str(refused.value)
    assert high_water.list_recorded_witnesses(lake, version) == ()


def test_unwritable_mark_is_no_failure(version: Version) -> None:
    (Path(version.uri).parent / high_water.NOTE).mkdir()

    high_water.write_note(version, SEVENTH, 9)

    assert (Path(version.uri).parent / high_water.NOTE).is_dir()


def test_consistent_witnesses_have_no_contradiction() -> None:
    fits = [Witness(who="a", epoch=7, end={0: 10, 1: 4}, table_version=9), Witness(who="b", epoch=3, end={0: 1})]

    assert list_contradictions(fits) == []


def test_epoch_that_the_table_no_longer_shows_is_named() -> None:
    assert list_contradictions([Witness(who="a", epoch=8), Witness(who="b", epoch=7)]) == [
        "Epoch log of p: a saw epoch 8, newest epoch row is 7."
    ]
    assert list_contradictions([Witness(who="a", epoch=0)], None) == [
        "Epoch log of p: a saw epoch 0, newest epoch row is -1."
    ]


def test_epoch_that_ends_elsewhere_now_is_named() -> None:
    assert list_contradictions([Witness(who="a", epoch=7, end={0: 10, 1: 5})]) == [
        "Epoch log of p: a saw epoch 7 end at 0: 10, 1: 5, its row says 0: 10, 1: 4."
    ]


def test_table_version_that_went_back_is_named() -> None:
    witnesses = [Witness(who="a", epoch=7, table_version=12)]

    assert list_contradictions(witnesses) == ["Epoch log of p: a saw table version 12, it is 9 now."]
    assert list_contradictions(witnesses, table_version=None) == []
