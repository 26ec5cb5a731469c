"""The recorded step after a loss, against a real log: refused, shown, recorded once, and gone on behind it."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cutover.cli.app import main
from cutover.clock import SystemClock
from cutover.definition import Count, Join, Pipeline
from cutover.definition.model.joins import RIGHT_PARTITION_BASE
from cutover.errors import CutoverError, DefinitionError, LakeError, LogError
from cutover.lake.control import losses, versions
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal_rows import Loss
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.verify.facts.source import VerifyRequest, count_log_records, open_source
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.process.heartbeat import only_driver, run_folder
from cutover.streaming.recovery import accept_loss
from cutover.streaming.sink.committer import Committer, check_fencing
from cutover.streaming.source import start_offsets
from tests.integration.streaming import rig
from tests.integration.streaming.log.loss import cut_away, delete, recreate
from tests.integration.streaming.rig import MINUTE, NOON, Event

CLOCK = SystemClock()
EVENTS = [Event(id=i, minute=i, partition=i % 2) for i in range(40)]  # 20 in each partition
LOST = [Event(id=100 + i, minute=40 + i / 2, partition=i % 2) for i in range(40)]  # offsets 20 to 39
LEFT = [Event(id=200 + i, minute=60 + i, partition=i % 2) for i in range(60)]


@pytest.fixture
def home(kafka_settings: Settings) -> Settings:
    """Return an installation without Spark: epochs are committed by hand, through all checks of a driver."""
    return rig.fast(kafka_settings)


@pytest.fixture
def log(home: Settings, topic_name: str) -> str:
    """Return a topic with two partitions that no other test uses."""
    rig.make_topic(home, topic_name, partitions=2)
    return topic_name


def commit(lake: PipelineLake) -> EpochRecord:
    """Commit an epoch that ends at the end of the log; of its rows only its record is written."""
    version = versions.open_or_create(lake, CLOCK)
    schema = epoch_log_schema(lake.pipeline)
    table = delta.ensure(version.uri, schema, partition_by=["_kind"])
    client = LogClient(lake.settings)
    opened = start_offsets.find_start(
        lake.pipeline, client, check_fencing(table, version), losses.list_of_version(lake.settings, version)
    )
    committer = Committer(version, "pid-1-hand", table, reload_every=100, accepted=opened.accepted)
    newest_record, end = committer.newest, client.latest(opened.log.topic)
    max_event = dict(newest_record.max_event) if newest_record else {}
    for partition, offset in opened.offsets.items():
        for record_read in client.read_range(opened.log.topic, partition, offset, end[partition]):
            max_event[partition] = max(max_event.get(partition, 0), record_read.log_time_micros)
    record = EpochRecord(
        epoch=newest_record.epoch + 1 if newest_record else 0,
        run_id=committer.run_id,
        topic=opened.log.topic,
        topic_id=opened.log.topic_id,
        cluster_id=opened.log.cluster_id,
        start=opened.offsets,
        end=end,
        max_event=max_event,
        watermark_before=newest_record.watermark_after if newest_record else None,
        watermark_after=min(max_event.values()) - 5 * MINUTE if max_event else None,
    )
    epoch_row = {"_kind": "epoch", "_epoch": record.epoch, "_record": record.to_json()}
    committer.commit(pa.Table.from_pylist([epoch_row], schema=schema), record)
    return record


def expect_rejection(lake: PipelineLake) -> CutoverError:
    """Start a driver, which has to end before it starts Spark."""
    with pytest.raises(CutoverError) as failure:
        driver.run_driver(lake, until="drain")
    return failure.value


def cut_stream(settings: Settings, topic: str) -> Pipeline:
    """Return a stream that has read forty records, and whose log has lost the next forty."""
    pipeline = rig.pipeline(topic)
    rig.send(settings, topic, EVENTS)
    commit(PipelineLake(settings, pipeline))
    rig.send(settings, topic, [*LOST, *LEFT])
    cut_away(settings, topic, {0: 40, 1: 40})
    return pipeline


def list_recorded(lake: PipelineLake) -> tuple[Loss, ...]:
    version = versions.find_current_version(lake)
    assert version is not None
    return losses.list_of_version(lake.settings, version)


def test_stream_goes_on_behind_a_gap_only_after_the_step(home: Settings, log: str) -> None:
    pipeline = cut_stream(home, log)
    lake = PipelineLake(home, pipeline)
    assert expect_rejection(lake).runbook == "LogDataLost"
    preview = accept_loss.preview_losses(lake, CLOCK)
    assert list_recorded(lake) == ()
    assert expect_rejection(lake).runbook == "LogDataLost"

    step = accept_loss.record_losses(lake, "retention was too short", CLOCK)
    commit(lake)

    assert list_recorded(lake) == step.losses
    assert [(loss.partition, loss.first, loss.next) for loss in step.losses] == [(0, 20, 40), (1, 20, 40)]
    assert [(loss.first, loss.windows) for loss in preview.losses] == [
        (loss.first, loss.windows) for loss in step.losses
    ]
    records = rig.records(lake)
    epoch_behind = next(record for record in records if record.epoch == step.losses[0].epoch)
    assert dict(epoch_behind.start) == {0: 40, 1: 40}
    assert [epoch for epoch, _, _ in rig.gaps(records)] == [epoch_behind.epoch]


@pytest.mark.quick
def test_what_is_left_behind_a_loss_is_counted_again_from_there_also_behind_an_empty_epoch(
    home: Settings, log: str
) -> None:
    pipeline = rig.pipeline(log)
    rig.send(home, log, EVENTS)
    lake = PipelineLake(home, pipeline)
    commit(lake)
    commit(lake)  # reads nothing: the next one begins to miss records here
    rig.send(home, log, [*LOST, *LEFT])
    cut_away(home, log, {0: 40, 1: 40})
    accept_loss.record_losses(lake, "retention was too short", CLOCK)
    commit(lake)

    source, facts = open_source(lake, VerifyRequest(now=CLOCK.now()))
    with source.connection:
        counted_records = count_log_records(source, facts)

    assert counted_records.records == {(1, 0): 0, (1, 1): 0, (2, 0): 30, (2, 1): 30}
    assert counted_records.omission.startswith("Epochs up to 0 cannot be counted again")


def test_touched_windows_are_those_open_at_the_last_epoch_up_to_the_first_record_left(home: Settings, log: str) -> None:
    pipeline = cut_stream(home, log)
    lake = PipelineLake(home, pipeline)
    watermark = rig.records(lake)[-1].watermark_after
    assert watermark == NOON + 33 * MINUTE

    preview = accept_loss.preview_losses(lake, CLOCK)

    # 30 to 40 was open; the first records left are of minutes 60 and 61, and 60 minutes ahead are allowed
    assert {loss.windows for loss in preview.losses} == {(NOON + 30 * MINUTE, NOON + 130 * MINUTE)}


def test_step_is_recorded_once_and_then_there_is_nothing_to_accept(home: Settings, log: str) -> None:
    pipeline = cut_stream(home, log)
    lake = PipelineLake(home, pipeline)
    accept_loss.record_losses(lake, "first", CLOCK)

    with pytest.raises(LogError, match="expected a loss to accept, got none") as nothing:
        accept_loss.record_losses(lake, "second", CLOCK)

    assert (nothing.value.exit_code, len(list_recorded(lake))) == (2, 2)


def test_log_that_loses_more_before_the_next_start_asks_for_another_step(home: Settings, log: str) -> None:
    pipeline = cut_stream(home, log)
    lake = PipelineLake(home, pipeline)
    accept_loss.record_losses(lake, "first", CLOCK)
    cut_away(home, log, {0: 45})

    assert "partition 0: expected offset 40, log starts at 45" in str(expect_rejection(lake))
    accept_loss.record_losses(lake, "again", CLOCK)
    commit(lake)

    recorded_ranges = [(loss.partition, loss.first, loss.next, loss.sequence) for loss in list_recorded(lake)]
    assert recorded_ranges == [(0, 20, 40, 0), (1, 20, 40, 0), (0, 40, 45, 1)]


def test_step_is_refused_while_a_driver_lives_and_without_a_reason(home: Settings, log: str) -> None:
    pipeline = cut_stream(home, log)

    lake = PipelineLake(home, pipeline)
    with (
        only_driver(run_folder(home, pipeline.name), pipeline.name),
        pytest.raises(LakeError, match="expected no driver"),
    ):
        accept_loss.record_losses(lake, "why", CLOCK)
    with pytest.raises(DefinitionError, match="expected a reason"):
        accept_loss.record_losses(lake, "  ", CLOCK)

    assert list_recorded(lake) == ()


def test_whole_log_has_no_loss_to_accept(home: Settings, log: str) -> None:
    pipeline = rig.pipeline(log)
    lake = PipelineLake(home, pipeline)
    with pytest.raises(LogError, match="no stream has begun"):
        accept_loss.preview_losses(lake, CLOCK)
    rig.send(home, log, EVENTS)
    commit(lake)

    with pytest.raises(LogError, match="table and log hold what comes next"):
        accept_loss.preview_losses(lake, CLOCK)


@pytest.mark.parametrize("events", [10, 80], ids=["shorter", "longer"])
def test_topic_made_again_is_read_by_a_new_version(home: Settings, log: str, events: int) -> None:
    pipeline = rig.pipeline(log)
    rig.send(home, log, EVENTS)
    lake = PipelineLake(home, pipeline)
    commit(lake)
    old = rig.epoch_log(lake)
    recreate(home, log)
    new_events = [Event(id=1000 + i, minute=200 + i, partition=i % 2) for i in range(events)]
    rig.send(home, log, new_events)
    assert expect_rejection(lake).runbook == "TopicIdentityChanged"

    step = accept_loss.record_losses(lake, "somebody deleted it", CLOCK)
    commit(lake)

    assert (step.kind, step.version) == ("anew", 1)
    assert {loss.topic_id for loss in step.losses} == {old.records()[-1].topic_id}
    assert [(loss.partition, loss.first, loss.next) for loss in step.losses] == [(0, 20, None), (1, 20, None)]
    assert dict(rig.records(lake)[0].start) == {0: 0, 1: 0}
    version = versions.list_stream_versions(lake)[0]
    assert (version.uri, old.version) == (old.uri, type(old)(old.uri).version)


def test_topic_made_again_twice_asks_for_two_steps(home: Settings, log: str) -> None:
    pipeline = rig.pipeline(log)
    rig.send(home, log, EVENTS)
    lake = PipelineLake(home, pipeline)
    commit(lake)
    recreate(home, log)
    accept_loss.record_losses(lake, "once", CLOCK)
    recreate(home, log)

    assert expect_rejection(lake).runbook == "TopicIdentityChanged"
    assert accept_loss.record_losses(lake, "twice", CLOCK).version == 2


def test_topic_that_is_gone_can_not_be_gone_on_with(home: Settings, log: str) -> None:
    pipeline = rig.pipeline(log)
    rig.send(home, log, EVENTS[:4])
    lake = PipelineLake(home, pipeline)
    commit(lake)
    delete(home, log)

    with pytest.raises(LogError, match="is not there") as raised:
        accept_loss.preview_losses(lake, CLOCK)

    assert raised.value.runbook == "TopicIdentityChanged"


def break_history(uri: str) -> None:
    """Take the newest entry of the table's log back by restoring it to the version before, as a hand would."""
    table = DeltaTable(uri)
    table.restore(table.version() - 1)


def lose_a_file(uri: str) -> None:
    """Take a data file of the first epoch away."""
    min((Path(uri) / "_kind=epoch").glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns).unlink()


@pytest.mark.parametrize(
    ("harm", "runbook"),
    [
        (break_history, "EpochHistoryBroken"),
        (lose_a_file, "TableUnreadable"),
        (shutil.rmtree, "ForeignWrite"),
        (lambda uri: DeltaTable(uri).delete("_epoch = 0"), "ForeignWrite"),
    ],
    ids=["restored", "file gone", "table gone", "rows deleted"],
)
def test_broken_table_is_left_and_the_log_read_again(
    home: Settings, log: str, harm: Callable[[str], None], runbook: str
) -> None:
    pipeline = rig.pipeline(log)
    rig.send(home, log, EVENTS)
    lake = PipelineLake(home, pipeline)
    commit(lake)
    rig.send(home, log, LOST)
    commit(lake)
    harm(rig.epoch_log(lake).uri)

    step = accept_loss.record_losses(lake, "restored by hand", CLOCK)
    commit(lake)

    assert (step.kind, step.runbook, step.version) == ("anew", runbook, 1)
    assert [(loss.first, loss.next, loss.windows) for loss in step.losses] == [(0, 0, None), (0, 0, None)]


def test_broken_table_over_a_log_that_lost_its_beginning_touches_all_that_it_fed(home: Settings, log: str) -> None:
    pipeline = rig.pipeline(log)
    rig.send(home, log, EVENTS)
    lake = PipelineLake(home, pipeline)
    commit(lake)
    lose_a_file(rig.epoch_log(lake).uri)
    cut_away(home, log, {0: 10})

    step = accept_loss.record_losses(lake, "both", CLOCK)
    commit(lake)

    assert [(loss.partition, loss.first, loss.next) for loss in step.losses] == [(0, 0, 10), (1, 0, 0)]
    assert losses.is_touched(NOON, losses.find_touched_windows(step.losses))


def test_step_that_was_cut_off_before_it_opened_the_version_is_finished(home: Settings, log: str) -> None:
    pipeline = rig.pipeline(log)
    rig.send(home, log, EVENTS)
    lake = PipelineLake(home, pipeline)
    commit(lake)
    recreate(home, log)
    rows = accept_loss.preview_losses(lake, CLOCK)
    losses.record(home, rows.losses, expected_sequence=rows.turn)  # and then the process died

    assert expect_rejection(lake).runbook == "TopicIdentityChanged"
    step = accept_loss.record_losses(lake, "again", CLOCK)

    assert step.is_recorded
    assert len(losses.list_losses(lake)) == len(rows.losses)
    assert [version.number for version in versions.list_stream_versions(lake)] == [0, 1]
    assert start_offsets.find_expected_log(None, list_recorded(lake)) == LogClient(home).topic_id(log)


def normalize_spaces(captured: str) -> str:
    return " ".join(captured.split())


@pytest.mark.quick
def test_command_shows_then_records_then_finds_nothing(
    home: Settings, log: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cut_stream(home, log)
    rig.for_commands(monkeypatch, home, log)

    codes = [main(["accept-loss", "clicks", *options]) for options in ([], ["--dry-run", "--why", "only a look"])]
    output = normalize_spaces(capsys.readouterr().out)
    assert losses.list_losses(PipelineLake(home, rig.pipeline(log))) == ()
    codes += [main(["accept-loss", "clicks", "--why", "too short", "--json"])]
    answer = json.loads(capsys.readouterr().out)
    codes += [main(["accept-loss", "clicks", "--why", "again"])]
    refusal = capsys.readouterr().err

    assert codes == [0, 0, 0, 2]
    assert "stream-0 continues at epoch 1, after the lost offsets." in output
    assert "20 to 39 (20)" in output
    assert "2026-03-01T12:30:00Z to 2026-03-01T14:00:00Z (10), by start" in output
    assert output.count('Nothing was recorded. `cutover accept-loss clicks --why "..."` records it.') == 2
    assert (answer["recorded"], answer["kind"], answer["runbook"]) == (True, "gap", "LogDataLost")
    assert [(row["partition"], row["first"], row["next"], row["why"]) for row in answer["losses"]] == [
        (0, 20, 40, "too short"),
        (1, 20, 40, "too short"),
    ]
    assert "expected a loss to accept, got none" in refusal


def test_loss_in_the_right_topic_of_a_join_is_told_and_accepted_alone(home: Settings, log: str) -> None:
    plain, right = rig.pipeline(log), f"{log}-right"
    join = Join(right=replace(plain.source, name=right), on={"k": "k"}, prefix="r_")
    pipeline = replace(plain, join=join, measures={"pairs": Count()})
    rig.make_topic(home, right, partitions=2)
    for topic in (log, right):
        rig.send(home, topic, EVENTS)
    lake = PipelineLake(home, pipeline)
    commit(lake)
    for topic in (log, right):
        rig.send(home, topic, [*LOST, *LEFT])
    cut_away(home, right, {1: 40})

    failure = expect_rejection(lake)
    step = accept_loss.record_losses(lake, "retention of the right topic was too short", CLOCK)
    commit(lake)

    assert failure.runbook == "LogDataLost"
    assert f"Topic {right}, partition 1" in str(failure)
    assert [(loss.partition, loss.first, loss.next) for loss in step.losses] == [(RIGHT_PARTITION_BASE + 1, 20, 40)]
    record_behind = rig.records(lake)[-1]
    assert dict(record_behind.start) == {0: 20, 1: 20, RIGHT_PARTITION_BASE: 20, RIGHT_PARTITION_BASE + 1: 40}
