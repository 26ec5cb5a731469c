"""Alerts on tables and checkpoints of a team's own jobs: none for what is normal, and one of its own for each fault."""

import shutil
from collections.abc import Mapping
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from cutover.clock import SystemClock
from cutover.definition import BatchJob, Delta
from cutover.driver_state import read_driver_state
from cutover.errors import LakeError
from cutover.pipeline_lake import PipelineLake
from cutover.positions import followed_job
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.watch.alerts.catalogue import list_firing
from cutover.reconcile.watch.collector import FactCollector
from cutover.streaming.driver import run_driver
from tests.integration.streaming.rig import Event, send
from tests.support.batch_jobs import count_hours, encode_cut, write_delta
from tests.support.followed_jobs import EVENTS, JobTopic, compare, remove_batches

OF_JOBS = {"DivergenceUnexplained", "FollowedJobBroken", "FollowedJobStopped", "JobTableUnusable", "NotComparable"}


def list_alerts(lake: PipelineLake) -> Mapping[str, str]:
    """Return the alerts on jobs and comparisons that fire, with their texts."""
    firing = list_firing(FactCollector(lake, SystemClock()).collect())
    return {alert.name: alert.text for alert in firing if alert.name in OF_JOBS}


def shift(minutes: float) -> list[Event]:
    return [replace(event, minute=event.minute + minutes) for event in EVENTS]


def write_nightly(rig: JobTopic, offset: int) -> None:
    cut = encode_cut(rig.topic, {0: offset, 1: offset})
    write_delta(count_hours(rig.spark, rig.settings, rig.topic, cut), rig.place / "nightly", cut)


def test_what_is_normal_for_jobs_raises_no_alert(rig: JobTopic) -> None:
    lake = rig.run("merge")
    lake = PipelineLake(lake.settings, replace(lake.pipeline, batch=BatchJob(table=Delta(f"{rig.place}/nightly"))))
    write_nightly(rig, 30)
    compare(lake)
    assert list_alerts(lake) == {}

    for table in (DeltaTable(f"{rig.place}/table"), DeltaTable(f"{rig.place}/nightly")):
        table.optimize.compact()
        table.vacuum(dry_run=False)  # within the retention: nothing that is needed goes
    run_reconciliation(lake)
    assert list_alerts(lake) == {}

    send(rig.settings, rig.topic, shift(400))
    rig.run("merge")  # the job is started again, and its follower lags
    run_reconciliation(lake)
    assert list_alerts(lake) == {}

    newest = max(int(file.name) for file in (rig.place / "checkpoint" / "commits").glob("[0-9]*"))
    for name in (f"{newest}", f".{newest}.crc"):
        (rig.place / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    compare(rig.run("merge") and lake)  # the batch is planned again, with the same offsets
    assert list_alerts(lake) == {}

    send(rig.settings, rig.topic, shift(800))
    write_nightly(rig, 75)  # beyond the cut of the batch run
    run_reconciliation(lake)
    assert list_alerts(lake) == {}
    assert run_driver(lake, until="drain") == 0
    rig.run("merge")
    compare(lake)
    assert list_alerts(lake) == {}


def test_faults_of_jobs_raise_their_alerts(rig: JobTopic) -> None:
    lake = rig.run("merge")
    compare(lake)
    place, checkpoint = rig.place, rig.place / "checkpoint"
    send(rig.settings, rig.topic, shift(400))
    assert run_driver(lake, until="drain") == 0
    waiting_since = read_driver_state(lake.settings, lake.name).job_unread_since
    assert waiting_since is not None
    assert run_driver(lake, until="drain") == 0
    assert read_driver_state(lake.settings, lake.name).job_unread_since == waiting_since

    rig.run("merge")
    compare(lake)
    assert read_driver_state(lake.settings, lake.name).job_unread_since is None
    assert list_alerts(lake) == {}

    DeltaTable(f"{place}/table").optimize.compact()
    DeltaTable(f"{place}/table").vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    run_reconciliation(lake)
    assert "JobTableUnusable" in list_alerts(lake)

    shutil.move(checkpoint, place / "backup")
    for expected in ("found no file `metadata`", "the checkpoint was replaced"):
        with pytest.raises(LakeError, match=expected):
            run_driver(lake, until="drain")
        assert expected in list_alerts(lake)["FollowedJobBroken"]
        rig.run("merge")
    shutil.rmtree(checkpoint)
    shutil.move(place / "backup", checkpoint)
    archived = len(followed_job.read_archive(lake))
    send(rig.settings, rig.topic, shift(800))
    rig.run("merge")
    remove_batches(place, before=archived + 1)
    with pytest.raises(LakeError, match="before they were archived"):
        run_driver(lake, until="drain")
    assert "Spark removed" in list_alerts(lake)["FollowedJobBroken"]
