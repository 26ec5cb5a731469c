"""Every alert of the list, by its spec: rule, runbook, drill, limits, suppressed alerts, and the files made from it."""

import re
from pathlib import Path

import pytest
import yaml

from cutover import runbooks
from cutover.definition.model.pipeline import Lateness
from cutover.definition.model.policy import Policy
from cutover.infra.drills.catalogue import DRILLS
from cutover.metrics import FAMILIES
from cutover.reconcile.watch.alerts import catalogue
from cutover.reconcile.watch.alerts.catalogue import ALERTS, ALERTS_BY_NAME, list_firing
from cutover.reconcile.watch.facts import SEVERITIES, AlertSpec, Problem
from cutover.settings import AlertSettings
from tests.support.history.watch_facts import make_facts

ROOT = Path(__file__).resolve().parents[3]
RULES = {rule["alert"]: rule for group in yaml.safe_load(catalogue.render_rules())["groups"] for rule in group["rules"]}
ROUTING = yaml.safe_load(catalogue.render_routing())
SETTINGS = {
    "alerts": set(AlertSettings.model_fields),
    "policy": set(Policy.__dataclass_fields__),
    "lateness": set(Lateness.__dataclass_fields__),
}

each_alert = pytest.mark.parametrize("spec", [pytest.param(spec, id=spec.name) for spec in ALERTS])


@pytest.mark.parametrize("name", sorted(catalogue.FILES))
def test_generated_file_is_up_to_date(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")

    assert text == catalogue.FILES[name](text), "run `make alert-rules`"


def test_no_two_alerts_have_one_name() -> None:
    assert len(ALERTS_BY_NAME) == len(ALERTS)


@each_alert
def test_rule_finds_nothing_in_a_healthy_stream(spec: AlertSpec) -> None:
    assert list(spec.rule(make_facts())) == []


@each_alert
def test_reported_problem_fires_its_alert_with_its_severity(spec: AlertSpec) -> None:
    firing = list_firing(make_facts(problems=(Problem(runbook=spec.name, text="a file is missing"),)))

    assert [(alert.name, alert.severity, alert.text) for alert in firing] == [
        (spec.name, spec.severity, "a file is missing")
    ]


@each_alert
def test_prometheus_rule_has_severity_owner_and_runbook(spec: AlertSpec) -> None:
    rule = RULES[spec.name]

    assert rule["labels"] == {"severity": spec.severity, "owner": spec.owner}
    assert (ROOT / rule["annotations"]["runbook"]).is_file()


@each_alert
def test_runbook_has_the_head_of_its_spec(spec: AlertSpec) -> None:
    head = runbooks.read_page(spec.name).head

    assert (head.alert, head.severity, head.owner) == (spec.name, spec.severity, spec.owner)
    assert head.no_drill == spec.no_drill


@each_alert
def test_alert_is_caused_by_its_drill_or_names_the_reason(spec: AlertSpec) -> None:
    assert (spec.name in DRILLS) is (spec.no_drill is None)


@each_alert
def test_limits_are_settings_or_attributes_of_the_definition(spec: AlertSpec) -> None:
    names = [limit.split(".") for limit in spec.limits]

    assert [name for section, name in names if name not in SETTINGS[section]] == []


def test_every_setting_of_alerts_is_the_limit_of_one() -> None:
    limits = {limit.removeprefix("alerts.") for spec in ALERTS for limit in spec.limits}

    assert SETTINGS["alerts"] - limits == set()


@each_alert
def test_suppressed_alerts_exist_and_are_no_more_urgent(spec: AlertSpec) -> None:
    suppressed = [ALERTS_BY_NAME[name] for name in spec.suppresses]

    assert spec not in suppressed
    assert all(SEVERITIES.index(spec.severity) <= SEVERITIES.index(other.severity) for other in suppressed)
    assert [other.name for other in suppressed if spec.name in other.suppresses] == []


@pytest.mark.parametrize("name", sorted({*RULES} - {*ALERTS_BY_NAME} - {"OtherAlert"}))
def test_further_rule_names_a_runbook(name: str) -> None:
    assert (ROOT / RULES[name]["annotations"]["runbook"]).is_file()


@pytest.mark.parametrize("name", sorted(name for name, rule in RULES.items() if rule["labels"]["severity"] == "page"))
def test_page_is_listed_for_on_call(name: str) -> None:
    assert name in (ROOT / "docs/runbooks/README.md").read_text(encoding="utf-8").partition("## All alerts")[0]


@pytest.mark.parametrize("name", sorted(RULES))
def test_rule_queries_metrics_that_are_published(name: str) -> None:
    assert set(re.findall(r"cutover_\w+", RULES[name]["expr"])) <= set(FAMILIES)


def test_alerts_are_suppressed_within_one_pipeline_alone() -> None:
    assert {tuple(rule["equal"]) for rule in ROUTING["inhibit_rules"]} == {("pipeline",)}


def test_example_sends_to_loopback_alone() -> None:
    addresses = [hook["url"] for receiver in ROUTING["receivers"] for hook in receiver.get("webhook_configs", ())]

    assert addresses
    assert all(address.startswith("http://127.0.0.1:") for address in addresses)
