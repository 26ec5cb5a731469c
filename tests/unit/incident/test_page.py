"""Runbook page for one pipeline: firing alerts, its position, the last similar incident, and commands with its name."""

from pathlib import Path

from cutover import runbooks
from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.driver_state import DriverState
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.incident import NONE_RECORDED, fill_page
from cutover.reconcile.watch.alerts.catalogue import make_alert
from cutover.reconcile.watch.status import WatchStatus
from cutover.settings import Settings

CLICKS = Pipeline(
    name="clicks",
    source=Topic(name="clicks", schema="at timestamp NOT NULL, k string", event_time="at"),
    key=("k",),
    window=Fixed(minutes=10),
    measures={"clicks": Count()},
)


def watched(*names: str) -> WatchStatus:
    return WatchStatus(
        pipeline="clicks",
        at="2026-03-01T12:00:00+00:00",
        verdict="STOPPED",
        watermark_verdict="ADVANCING",
        epoch=1_234,
        unread=None,
        partitions=(),
        watermark=None,
        newest_event=None,
        watermark_lag_seconds=None,
        late_share=0.0,
        late_epochs=0,
        driver=DriverState(),
        alerts=tuple(make_alert(name, "7 offsets are gone") for name in names),
    )


def read_fields(tmp_path: Path, name: str, *firing: str) -> dict[str, str]:
    text = runbooks.read_text(name) or ""
    page = fill_page(PipelineLake(Settings(home=tmp_path), CLICKS), name, text, watched(*firing))
    return {detail.name: detail.description for detail in page.details}


def test_page_begins_with_firing_alerts_and_the_position(tmp_path: Path) -> None:
    sections = read_fields(tmp_path, "LogDataLost", "LogDataLost", "NoInput")

    assert (sections["Now"], sections["Newest epoch"]) == ("page, 7 offsets are gone", "1,234")
    assert sections["Last similar incident"] == NONE_RECORDED


def test_page_shows_that_its_alert_does_not_fire(tmp_path: Path) -> None:
    assert read_fields(tmp_path, "LogDataLost", "NoInput")["Now"] == "this alert does not fire"


def test_commands_of_a_filled_page_name_the_pipeline_and_the_head_is_left_out(tmp_path: Path) -> None:
    text = runbooks.read_text("LogDataLost") or ""
    page = fill_page(PipelineLake(Settings(home=tmp_path), CLICKS), "LogDataLost", text, watched()).to_text()

    assert page.startswith("# LogDataLost\n\n- Pipeline: clicks\n- Now: ")
    assert "$ cutover accept-loss clicks --dry-run" in page
    assert "$ cutover accept-loss flights" not in page
