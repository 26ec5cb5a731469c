"""A replay: a second version next to the one that serves, filled while its driver runs, compared, and then served."""

from dataclasses import replace

import pyarrow as pa
import pytest

from cutover.batch import recompute
from cutover.cli.app import main
from cutover.clock import SystemClock
from cutover.engine import queries
from cutover.errors import CutoverError, DefinitionError, LogError
from cutover.lake.control import versions
from cutover.lake.control.versions import select_stream_version
from cutover.lake.epochs import delivery
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.verify.facts.facts import CheckState
from cutover.reconcile.verify.record import verify_pipeline
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.process.heartbeat import only_driver, run_folder
from cutover.streaming.replacement.compare import compare_versions, find_readable_cut, list_common_cuts
from cutover.streaming.replacement.replay import replay_log
from tests.integration.streaming import rig
from tests.integration.streaming.log.loss import cut_away
from tests.integration.streaming.rig import Event
from tests.support.comparison.planted import replace_rows

CLOCK = SystemClock()
EVENTS = [Event(id=i, minute=i / 4, key="ab"[i % 2], partition=i % 2) for i in range(80)]
EVENTS += [Event(id=1000 + i, minute=0, logged=60, partition=0) for i in range(5)]  # late, where epochs are small
FROM = 1


class GoneError(Exception):
    """The driver of a replay was killed in the middle of an epoch."""


def gone_once(point: str, epoch: int) -> None:
    if (point, epoch) == ("epoch.aggregated", 3):
        raise GoneError


def test_records_that_retention_takes_during_a_replay_end_it_and_are_named(quick: Settings, topic: str) -> None:
    settings, pipeline = rig.fast(quick, fold_every=1_000), rig.pipeline(topic, cap=20)
    rig.send(settings, topic, EVENTS)
    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")

    with pytest.raises(CutoverError, match="GoneError"):  # a separate driver may hold read records in memory
        replay_log(lake, 1, CLOCK, probe=gone_once)
    cut_away(settings, topic, {0: 35, 1: 35})
    epochs_before = [record.epoch for record in rig.records(PipelineLake(select_stream_version(settings, 1), pipeline))]
    for _ in range(2):  # it does not continue behind the gap by itself, either
        with pytest.raises(LogError, match="offsets are gone") as ended:
            replay_log(lake, 1, CLOCK)
        assert ended.value.runbook == "LogDataLost"
    assert [
        record.epoch for record in rig.records(PipelineLake(select_stream_version(settings, 1), pipeline))
    ] == epochs_before
    serving = versions.find_current_version(lake)
    assert serving is not None
    assert serving.number == 0


@pytest.mark.quick
def test_replay_beside_a_driver_is_killed_goes_on_is_compared_and_serves(
    quick: Settings, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, pipeline = rig.fast(quick, fold_every=1_000), rig.pipeline(topic, cap=20)
    rig.send(settings, topic, EVENTS)
    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")
    served = rig.epoch_log(lake).version

    with only_driver(run_folder(settings, pipeline.name), pipeline.name):  # as the running driver holds it
        with pytest.raises(CutoverError, match="GoneError"):
            replay_log(lake, 1, CLOCK, epoch=FROM, probe=gone_once)
        replay_log(lake, 1, CLOCK)
        replay_log(lake, 2, CLOCK)

    settings_by_version = {number: select_stream_version(settings, number) for number in (1, 2)}
    assert served == rig.epoch_log(lake).version
    assert rig.records(PipelineLake(settings_by_version[1], pipeline))[: FROM + 1] == rig.records(lake)[: FROM + 1]
    for version_settings in settings_by_version.values():
        assert rig.count_by_cell(PipelineLake(version_settings, pipeline)) == rig.expect_cells(EVENTS)
        assert rig.gaps(rig.records(PipelineLake(version_settings, pipeline))) == []
    assert_compared(PipelineLake(settings_by_version[2], pipeline))
    assert_versions_compared(lake)

    rig.for_commands(monkeypatch, settings, topic)
    assert main(["replay", pipeline.name, "--compare", "2"]) == 0
    assert "rows add up to the same" in capsys.readouterr().out
    assert_served_only_as_agreed(lake, capsys)
    rig.send(settings, topic, [Event(id=5_000, minute=70, key="a", partition=0)])
    driver.run_driver(lake, until="drain")
    version = versions.find_current_version(lake)
    assert version is not None
    assert version.number == 2
    assert rig.count_by_cell(lake) == rig.expect_cells([*EVENTS, Event(id=5_000, minute=70, key="a", partition=0)])
    assert rig.count_by_cell(PipelineLake(settings_by_version[1], pipeline)) == rig.expect_cells(EVENTS)


def assert_served_only_as_agreed(lake: PipelineLake, capsys: pytest.CaptureFixture[str]) -> None:
    """A version with a row that differs serves only if that many were agreed to; one that served goes at once."""
    pipeline = lake.pipeline
    uri = str(rig.epoch_log(PipelineLake(select_stream_version(lake.settings, 1), pipeline)).table.table_uri)
    table = change_one_row(uri)
    for words, message in (((), "expected 0 rows"), (("--differences", "2"), "expected 2 rows")):
        assert main(["serve", pipeline.name, "--version", "1", "--why", "x", *words]) == 2
        assert message in capsys.readouterr().err
    assert number_serving(lake) == 0
    assert main(["serve", pipeline.name, "--version", "1", "--why", "x", "--differences", "1"]) == 0
    assert "1 of" in capsys.readouterr().out
    assert newest_reason(lake).startswith("x (compared with clicks stream-0 at epoch ")
    assert main(["serve", pipeline.name, "--version", "0", "--why", "back"]) == 0
    assert (number_serving(lake), newest_reason(lake)) == (0, "back")
    replace_rows(uri, table, kind="partial")
    assert main(["serve", pipeline.name, "--version", "2", "--why", "one order of epochs"]) == 0
    assert "stream-2 serves" in capsys.readouterr().out


def number_serving(lake: PipelineLake) -> int:
    version = versions.find_current_version(lake)
    assert version is not None
    return version.number


def newest_reason(lake: PipelineLake) -> str:
    return str(versions.read_version_events(lake.settings, lake.name)[-1].why)


def assert_versions_compared(lake: PipelineLake) -> None:
    """One wrong row in the new version is found, and no other; it is restored afterwards."""
    agreed = compare_versions(lake, 2)
    assert (agreed.counts, agreed.serving, agreed.candidate, agreed.exit_code) == (
        {},
        "clicks stream-0",
        "clicks stream-2",
        0,
    )
    assert agreed.late[0] > 0

    uri = str(rig.epoch_log(PipelineLake(select_stream_version(lake.settings, 1), lake.pipeline)).table.table_uri)
    table = change_one_row(uri)
    versions = compare_versions(lake, 1)
    replace_rows(uri, table, kind="partial")

    assert (versions.counts, len(versions.examples), versions.exit_code) == ({"changed": 1}, 1, 1)
    assert compare_versions(lake, 1).counts == {}


def change_one_row(uri: str) -> pa.Table:
    """Add 1 to a sum of one accepted row; return the rows as they were."""
    with queries.open_duckdb() as connection:
        delta.bind(connection, "held", delta.open_table(uri))
        connection.execute("CREATE TEMP TABLE rows AS SELECT * FROM held WHERE _kind = 'partial'")
        table = queries.query_table(connection, "SELECT * FROM rows")
        first_row = "(SELECT min(rowid) FROM rows WHERE _class = 'accepted')"
        connection.execute(f"UPDATE rows SET ids = ids + 1 WHERE rowid = {first_row}")  # noqa: S608 -- ours
        replace_rows(uri, queries.query_table(connection, "SELECT * FROM rows"), kind="partial")
    return table


def test_versions_are_compared_where_their_epochs_end_together() -> None:
    def ends(*offsets: int) -> list[EpochRecord]:
        epoch_record = EpochRecord(
            epoch=0,
            run_id="r",
            topic="t",
            topic_id="T",
            cluster_id="C",
            start={},
            end={},
            max_event={},
            watermark_before=None,
            watermark_after=None,
        )
        return [replace(epoch_record, epoch=number, end={0: offset}) for number, offset in enumerate(offsets)]

    assert list(list_common_cuts(ends(10, 20, 30), ends(10, 15, 20, 20, 35))) == [(1, 3), (0, 0)]
    assert list(list_common_cuts(ends(10, 20), ends(15))) == []
    assert (
        list(list_common_cuts(ends(10, 20), [replace(epoch_record, topic_id="U") for epoch_record in ends(20)])) == []
    )


def test_an_older_common_cut_is_taken_where_a_newer_one_was_folded(
    quick: Settings, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, pipeline = rig.fast(quick, fold_every=1_000), rig.pipeline(topic, cap=20)
    rig.send(settings, topic, EVENTS[:40])
    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")
    log = rig.epoch_log(lake)
    newest = log.records()[-1].epoch
    real = delivery.find_folded_classes
    monkeypatch.setattr(
        delivery,
        "find_folded_classes",
        lambda version, records: ["accepted"] if records[-1].epoch == newest else real(version, records),
    )

    assert find_readable_cut(log, log) == (newest - 1, newest - 1)


def assert_compared(lake: PipelineLake) -> None:
    recompute.recompute_windows(lake)
    report = run_reconciliation(lake)
    assert report.finding.verdict in {Verdict.CONSISTENT, Verdict.EXPLAINED}
    assert report.finding.seal.stream_version == lake.settings.stream_version
    checks = verify_pipeline(lake, clock=CLOCK).checks
    assert [name for name, check in checks.items() if check.state is CheckState.VIOLATED] == []


def test_replay_into_another_number_or_from_elsewhere_is_refused(quick: Settings, topic: str) -> None:
    pipeline = rig.pipeline(topic)
    lake = PipelineLake(quick, pipeline)
    versions.open_or_create(lake, CLOCK)
    versions.register(lake, CLOCK, expected_sequence=versions.read_next_version_sequence(lake), parallel=True)

    for number, epoch, message in (
        (5, None, r"expected the next version \(2\) or one that a replay fills, got 5, which does not exist"),
        (0, None, "got 0, which serves or has served"),
        (1, 3, "expected to continue from the log's beginning, got epoch 3"),
    ):
        with pytest.raises(DefinitionError, match=message):
            replay_log(lake, number, CLOCK, epoch=epoch)
    assert len(versions.list_stream_versions(lake)) == len(["serves", "beside"])
