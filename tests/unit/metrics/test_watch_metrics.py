"""Metrics of a status: all alerts, firing or not."""

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from cutover import metrics
from cutover.driver_state import DriverState
from cutover.reconcile.watch.alerts.catalogue import ALERTS
from cutover.reconcile.watch.facts import Problem
from cutover.reconcile.watch.status import make_status, write_metrics_file
from cutover.settings import Settings
from tests.support.history.watch_facts import NOW, make_facts

FAILED = DriverState(alive=False, state="FAILED", error="x", runbook="KafkaRefused")
DAMAGED = Problem(runbook="TableUnreadable", text="file gone")


def read_alerts(settings: Settings) -> dict[str, tuple[str, float]]:
    text = metrics.make_metrics_path(settings, "watch", "clicks").read_text(encoding="utf-8")
    samples_by_family = {family.name: family.samples for family in text_string_to_metric_families(text)}
    (sampled_at,) = samples_by_family["cutover_watch_last_sample_timestamp_seconds"]
    assert sampled_at.value == NOW.timestamp()
    samples = samples_by_family["cutover_alert_firing"]
    return {sample.labels["alert"]: (sample.labels["severity"], sample.value) for sample in samples}


def test_every_alert_has_a_series(settings: Settings) -> None:
    write_metrics_file(settings, make_status(make_facts()))

    assert read_alerts(settings) == {spec.name: (spec.severity, 0.0) for spec in ALERTS}


def test_firing_alerts_are_one_and_all_others_zero(settings: Settings) -> None:
    write_metrics_file(settings, make_status(make_facts(problems=(DAMAGED,))))

    assert [name for name, (_, value) in read_alerts(settings).items() if value] == ["TableUnreadable"]


def test_driver_that_failed_without_an_alert_is_a_page(settings: Settings) -> None:
    write_metrics_file(settings, make_status(make_facts(driver=FAILED)))

    alerts = read_alerts(settings)
    assert alerts["KafkaRefused"] == ("ticket", 1.0)
    assert alerts["StreamNotRunning"] == ("page", 1.0)


def test_problem_without_an_alert_fires_under_its_own_name(settings: Settings) -> None:
    write_metrics_file(settings, make_status(make_facts(problems=(replace(DAMAGED, runbook="DimensionUnusable"),))))

    assert {name for name, (_, value) in read_alerts(settings).items() if value} == {"DimensionUnusable"}


def test_forged_name_of_a_page_is_no_label(settings: Settings) -> None:
    write_metrics_file(settings, make_status(make_facts(driver=replace(FAILED, runbook="x" * 5_000))))

    assert set(read_alerts(settings)) == {spec.name for spec in ALERTS}
