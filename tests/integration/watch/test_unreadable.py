"""A file of the lake or of a driver that cannot be read: `watch` names it, and claims nothing that it holds."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cutover.clock import SystemClock
from cutover.errors import LakeError
from cutover.lake.control import versions
from cutover.lake.integrity import high_water
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile import run
from cutover.reconcile.gate import evidence
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.watch.collector import FactCollector
from cutover.reconcile.watch.status import WatchStatus, make_status
from cutover.settings import Settings
from cutover.streaming.process import heartbeat
from tests.integration.reconcile.lake_of import PIPELINE, reconcile
from tests.support.comparison.flips import make_lake

CLAIMS = {"StreamNotRunning", "LogDataLost", "DivergenceUnexplained", "ReconcilerNotRunning", "RetirementRegression"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    settings = make_lake(tmp_path_factory.mktemp("lake"))
    reconcile(PipelineLake(settings, PIPELINE))
    return settings


def read_status(settings: Settings) -> WatchStatus:
    return make_status(FactCollector(PipelineLake(settings, PIPELINE), SystemClock()).collect())


def spoil(file: Path, damage: str) -> Iterator[None]:
    """Make a file unreadable in one way; it is whole again afterwards."""
    content = file.read_bytes()
    try:
        if damage == "a folder":
            file.unlink()
            file.mkdir()
        else:
            file.write_bytes({"empty": b"", "half": content[: len(content) // 2], "junk": b"\xff\x00{"}[damage])
        yield
    finally:
        if file.is_dir():
            file.rmdir()
        file.write_bytes(content)


def newest(settings: Settings, table: str) -> Path:
    """Return the newest log entry of a table, by the end of its folder."""
    places = Path(settings.lake_uri).rglob(f"{table}/_delta_log/*.json")
    return max(places, key=lambda file: file.name)


@pytest.mark.parametrize("damage", ["empty", "half", "junk", "a folder"])
@pytest.mark.parametrize(
    "table", ["_control/versions", "_control/pins", "_control/gate", "_control/reconciliations", "batch_index"]
)
def test_an_unreadable_table_is_named_and_nothing_else_is_claimed(lake: Settings, table: str, damage: str) -> None:
    for _ in spoil(newest(lake, table), damage):
        status = read_status(lake)

        alerts = [alert for alert in status.alerts if alert.name == "TableUnreadable"]
        assert [table.rpartition("/")[2] in alert.text for alert in alerts] == [True]
        assert not CLAIMS & {alert.name for alert in status.alerts}
        assert status.undecided


def test_a_folder_in_place_of_the_only_log_entry_is_named(lake: Settings) -> None:
    (only_entry,) = Path(lake.lake_uri).glob("_control/audits/_delta_log/*.json")
    for _ in spoil(only_entry, "a folder"):
        alerts = read_status(lake).alerts

        assert [only_entry.name in alert.text for alert in alerts if alert.name == "TableUnreadable"] == [True]
        assert "ForeignWrite" not in {alert.name for alert in alerts}


@pytest.mark.parametrize("table", ["batch_index", "_control/gate"])
@pytest.mark.parametrize("pattern", [r'("appId":")', r'("txn":{[^}]*"version":)'])
def test_a_changed_transaction_of_a_log_is_named(lake: Settings, table: str, pattern: str) -> None:
    entry = newest(lake, table)
    content = entry.read_text(encoding="utf-8")
    changed, changes = re.subn(pattern, r"\g<1>7", content)  # another application, or a newer version
    try:
        entry.write_text(changed, encoding="utf-8")
        alerts = {alert.name: alert.text for alert in read_status(lake).alerts}
    finally:
        entry.write_text(content, encoding="utf-8")

    assert changes == 1
    assert entry.name in alerts["TableUnreadable"]
    assert "ForeignWrite" not in alerts


def test_an_unreadable_batch_index_leaves_the_stream_known(lake: Settings) -> None:
    status_before = read_status(lake)

    for _ in spoil(newest(lake, "batch_index"), "junk"):
        status = read_status(lake)

    assert (status.epoch, status.watermark, status.late_share) == (
        status_before.epoch,
        status_before.watermark,
        status_before.late_share,
    )
    assert "BatchNotFresh" in status.undecided


@pytest.mark.parametrize("text", ["", "{", "[]", "null", json.dumps({"state": 3, "at": "no time"}), '{"pid": 1}'])
def test_an_unreadable_heartbeat_is_named_and_no_driver_is_called_dead(lake: Settings, text: str) -> None:
    file = lake.run_dir / PIPELINE.name / "heartbeat.json"
    content_before = file.read_bytes() if file.exists() else None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    try:
        status = read_status(lake)
        with pytest.raises(LakeError, match="heartbeat"):
            heartbeat.stop_driver(lake, PIPELINE.name)
        silent = run.run_reconciliation(
            PipelineLake(lake, PIPELINE)
        )  # no broker answers, so the driver's last message would count
    finally:
        file.unlink()
        if content_before is not None:
            file.write_bytes(content_before)

    assert silent.finding.verdict is Verdict.NOT_COMPARABLE
    assert [breach.runbook for breach in silent.finding.seal.breaches] == ["TableUnreadable"]
    assert status.driver is None
    assert [str(file) in alert.text for alert in status.alerts if alert.name == "TableUnreadable"] == [True]
    assert "StreamNotRunning" in status.undecided


def test_an_epoch_log_that_is_gone_leaves_no_record_unread(tmp_path: Path) -> None:
    settings = make_lake(tmp_path)
    reconcile(PipelineLake(settings, PIPELINE))
    (log,) = Path(settings.lake_uri).rglob("stream/_delta_log")
    shutil.rmtree(log.parent)

    status = read_status(settings)

    assert [str(log.parent) in alert.text for alert in status.alerts if alert.name == "ForeignWrite"] == [True]
    assert (status.epoch, status.unread, status.late_share) == (None, None, None)
    assert {"StreamNotRunning", "LateRateHigh", "FilteredRateHigh"} <= set(status.undecided)


@pytest.mark.parametrize("text", ["", "{", "[]", "note"])
def test_a_note_of_the_newest_epoch_that_cannot_be_read_is_named(lake: Settings, text: str) -> None:
    status_before = read_status(lake)
    (log,) = Path(lake.lake_uri).rglob("stream/_delta_log")
    pipeline_lake = PipelineLake(lake, PIPELINE)
    version = versions.find_current_version(pipeline_lake)
    assert version is not None
    note = log.parent.parent / high_water.NOTE
    note.write_text(json.dumps({"app_id": version.app_id, "end": 5}) if text == "note" else text, encoding="utf-8")
    try:
        status, compared, metrics = (
            read_status(lake),
            reconcile(pipeline_lake),
            [*evidence.list_table_problems(pipeline_lake, version)],
        )
    finally:
        note.unlink()

    more = [alert for alert in status.alerts if alert not in status_before.alerts]
    assert [(alert.name, str(note) in alert.text) for alert in more] == [("TableUnreadable", True)]
    assert (status.epoch, status.unread) == (status_before.epoch, status_before.unread)
    assert compared.finding.verdict is Verdict.NOT_COMPARABLE
    assert [(breach.runbook, str(note) in breach.message) for breach in compared.finding.seal.breaches] == [
        ("TableUnreadable", True)
    ]
    assert [str(note) in text for text in metrics] == [True]
