"""Unknown facts: alerts that depend on them are undecided, and all others are decided as before."""

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cutover.driver_state import DriverState
from cutover.metrics import render_samples
from cutover.reconcile.watch.alerts.catalogue import ALERTS, evaluate_alerts
from cutover.reconcile.watch.facts import Problem, UnknownFact, WatchFacts
from cutover.reconcile.watch.status import list_metrics, make_status
from tests.support.history.watch_facts import ago, make_epoch, make_facts, make_sample

GONE = UnknownFact(reason="table `pins` cannot be read")
UNREADABLE = Problem(runbook="TableUnreadable", text=GONE.reason)
FACTS = [
    name
    for name, kind in WatchFacts.__annotations__.items()
    if "UnknownFact" in str(kind) and name not in {"sample_fact", "sample"}
]
STOPPED = DriverState(alive=False, state="STOPPED", at=ago(9_000))
UNREAD: dict[str, Any] = {"end_offsets": {0: 60, 1: 50}, "high_watermarks": {0: 60, 1: 50}}


def list_names(facts: WatchFacts) -> list[str]:
    return [alert.name for alert in evaluate_alerts(facts).alerts]


@pytest.mark.parametrize("name", FACTS)
def test_unknown_fact_fires_only_its_unreadable_table(name: str) -> None:
    unknown: dict[str, Any] = {name: GONE}

    assert list_names(replace(make_facts(problems=(UNREADABLE,)), **unknown)) == ["TableUnreadable"]


def test_unreadable_epochs_are_no_unread_records() -> None:
    """The unread offsets are known; the offsets that were read are not."""
    facts = make_facts(epochs=(), driver=STOPPED, unread_before_first_epoch=500, problems=(UNREADABLE,))
    assert "StreamNotRunning" in list_names(facts)

    unreadable = replace(facts, epochs=GONE, unread_before_first_epoch=GONE)
    evaluation = evaluate_alerts(unreadable)

    assert [alert.name for alert in evaluation.alerts] == ["TableUnreadable"]
    assert {"StreamNotRunning", "LogDataLost", "LateRateHigh", "WatermarkHeld"} <= set(evaluation.undecided)
    status = make_status(unreadable)
    assert (status.verdict, status.unread, status.late_share, status.epoch) == ("UNKNOWN", None, None, None)


def test_unreadable_heartbeat_is_no_dead_driver() -> None:
    sampled = make_sample(make_epoch(age=900), driver=None, **UNREAD)
    facts = make_facts(epochs=(make_epoch(age=900),), samples=(sampled,), driver=GONE, problems=(UNREADABLE,))

    assert list_names(facts) == ["TableUnreadable"]
    status = make_status(facts)
    assert (status.verdict, status.driver, status.unread) == ("UNKNOWN", None, 10)


def test_loss_is_paged_even_if_other_facts_are_unknown() -> None:
    facts = make_facts(
        sampled={"start_offsets": {0: 51, 1: 0}}, batch_freshness=GONE, pins=GONE, driver=GONE, problems=(UNREADABLE,)
    )

    assert list_names(facts) == ["LogDataLost", "TableUnreadable"]


def test_full_disk_fires_where_growth_is_unknown() -> None:
    assert "DiskHeadroomLow" in list_names(make_facts(free_bytes={"lake": 5}, recent_growth_bytes=GONE))


def test_silent_broker_leaves_alerts_on_the_log_undecided() -> None:
    evaluation = evaluate_alerts(make_facts(silent_seconds=61.0))

    assert [alert.name for alert in evaluation.alerts] == ["KafkaUnreachable"]
    assert {"LogDataLost", "TopicIdentityChanged", "RetentionHeadroomLow"} <= set(evaluation.undecided)


def test_undecided_alerts_have_no_metric_rather_than_a_zero() -> None:
    facts = replace(make_facts(problems=(UNREADABLE,)), epochs=GONE, driver=GONE)

    text = render_samples(list_metrics(make_status(facts)))

    families = {family.name: family.samples for family in text_string_to_metric_families(text)}
    values = {sample.labels["alert"]: sample.value for sample in families["cutover_alert_firing"]}
    assert values["TableUnreadable"] == 1.0
    assert values["BatchNotFresh"] == 0.0
    assert not {"StreamNotRunning", "LogDataLost", "LateRateHigh"} & set(values)
    assert not {"cutover_watch_driver_alive", "cutover_watch_late_ratio"} & set(families)


def test_without_any_fact_only_the_silence_of_the_broker_is_decided() -> None:
    unknown: dict[str, Any] = dict.fromkeys(FACTS, GONE)

    evaluation = evaluate_alerts(replace(make_facts(), **unknown))

    assert evaluation.alerts == ()
    assert {spec.name for spec in ALERTS} - set(evaluation.undecided) == {"KafkaUnreachable"}
