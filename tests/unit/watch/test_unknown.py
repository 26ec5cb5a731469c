"""Facts that could not be read: nothing that depends on them is claimed, and nothing else falls silent."""

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cutover.driver_state import DriverState
from cutover.metrics.families import render
from cutover.reconcile.watch.alerts.catalogue import ALERTS, evaluate
from cutover.reconcile.watch.facts import Problem, UnknownFact, WatchFacts
from cutover.reconcile.watch.lag import LagSample
from cutover.reconcile.watch.status import list_metrics, make_status
from tests.unit.watch.facts_of import ago, facts, record, sample

GONE = UnknownFact(reason="table `pins` cannot be read")
NAMED = Problem(runbook="TableUnreadable", text=GONE.reason)
FACTS = [
    name
    for name, kind in WatchFacts.__annotations__.items()
    if "UnknownFact" in str(kind) and name not in {"sample_fact", "sample"}
]
STOPPED = DriverState(alive=False, state="STOPPED", at=ago(9_000))
UNREAD: dict[str, Any] = {"end_offsets": {0: 60, 1: 50}, "high_watermarks": {0: 60, 1: 50}}


def names(known: WatchFacts) -> list[str]:
    return [one.name for one in evaluate(known).alerts]


@pytest.mark.parametrize("name", FACTS)
def test_an_unknown_fact_fires_nothing_but_its_table(name: str) -> None:
    unknown: dict[str, Any] = {name: GONE}

    assert names(replace(facts(problems=(NAMED,)), **unknown)) == ["TableUnreadable"]


def test_records_that_cannot_be_read_are_no_unread_records() -> None:
    """What waits in the log is known; whether it was read is not."""
    known = facts(epochs=(), driver=STOPPED, unread_before_first_epoch=500, problems=(NAMED,))
    assert "StreamNotRunning" in names(known)

    unreadable = replace(known, epochs=GONE, unread_before_first_epoch=GONE)
    found = evaluate(unreadable)

    assert [one.name for one in found.alerts] == ["TableUnreadable"]
    assert {"StreamNotRunning", "LogDataLost", "LateRateHigh", "WatermarkHeld"} <= set(found.undecided)
    now = make_status(unreadable)
    assert (now.verdict, now.unread, now.late_share, now.epoch) == ("UNKNOWN", None, None, None)


def test_a_heartbeat_that_cannot_be_read_is_no_dead_driver() -> None:
    look: LagSample = sample(record(age=900), driver=None, **UNREAD)
    known = facts(epochs=(record(age=900),), samples=(look,), driver=GONE, problems=(NAMED,))

    assert names(known) == ["TableUnreadable"]
    now = make_status(known)
    assert (now.verdict, now.driver, now.unread) == ("UNKNOWN", None, 10)


def test_a_loss_that_is_seen_is_paged_whatever_else_is_unknown() -> None:
    known = facts(
        looks={"start_offsets": {0: 51, 1: 0}}, batch_freshness=GONE, pins=GONE, driver=GONE, problems=(NAMED,)
    )

    assert names(known) == ["LogDataLost", "TableUnreadable"]


def test_a_full_disk_is_told_where_growth_is_unknown() -> None:
    assert "DiskHeadroomLow" in names(facts(free_bytes={"lake": 5}, recent_growth_bytes=GONE))


def test_a_silent_broker_decides_nothing_about_the_log() -> None:
    found = evaluate(facts(silent_seconds=61.0))

    assert [one.name for one in found.alerts] == ["KafkaUnreachable"]
    assert {"LogDataLost", "TopicIdentityChanged", "RetentionHeadroomLow"} <= set(found.undecided)


def test_undecided_alerts_have_no_metric_rather_than_a_zero() -> None:
    known = replace(facts(problems=(NAMED,)), epochs=GONE, driver=GONE)

    text = render(list_metrics(make_status(known)))

    families = {family.name: family.samples for family in text_string_to_metric_families(text)}
    told = {sample.labels["alert"]: sample.value for sample in families["cutover_alert_firing"]}
    assert told["TableUnreadable"] == 1.0
    assert told["BatchNotFresh"] == 0.0
    assert not {"StreamNotRunning", "LogDataLost", "LateRateHigh"} & set(told)
    assert not {"cutover_watch_driver_alive", "cutover_watch_late_ratio"} & set(families)


def test_without_any_fact_only_the_silence_of_the_broker_is_decided() -> None:
    unknown: dict[str, Any] = dict.fromkeys(FACTS, GONE)

    evaluation = evaluate(replace(facts(), **unknown))

    assert evaluation.alerts == ()
    assert {spec.name for spec in ALERTS} - set(evaluation.undecided) == {"KafkaUnreachable"}
