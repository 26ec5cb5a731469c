"""Rules and routing: a rule for each alert, no rule without one, and no page is held back by something less urgent."""

import re
from pathlib import Path

import pytest
import yaml

from cutover.metrics.families import FAMILIES
from cutover.reconcile.watch.alerts import prometheus
from cutover.reconcile.watch.alerts.owners import MUTES, OWNERS
from cutover.reconcile.watch.alerts.rules import SEVERITIES

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "infra" / "alerts"
URGENCY = {"page": 0, "ticket": 1, "info": 2}
OWN = {rule.name for rule in prometheus.SILENCE} | {"OtherAlert", "TaskFailed"}
RULES = {
    rule["alert"]: rule
    for group in yaml.safe_load((FOLDER / "cutover.rules.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}
ROUTING = yaml.safe_load((FOLDER / "alertmanager.example.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(prometheus.FILES))
def test_file_is_what_the_list_of_alerts_gives(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == prometheus.FILES[name](), "run `make alert-rules`"


def test_every_alert_has_a_rule_and_every_rule_an_alert() -> None:
    assert set(RULES) - OWN == set(SEVERITIES)


@pytest.mark.parametrize("name", sorted(RULES))
def test_rule_has_severity_owner_and_a_page_that_is_there(name: str) -> None:
    rule = RULES[name]

    assert rule["labels"]["severity"] == SEVERITIES.get(name, rule["labels"]["severity"])
    assert rule["labels"]["severity"] in {*URGENCY, "none"}
    assert rule["labels"]["owner"] == OWNERS.get(name, rule["labels"]["owner"])
    page = rule["annotations"]["runbook"]
    assert name == "OtherAlert" or (ROOT / page).is_file(), page


@pytest.mark.parametrize("name", sorted(OWNERS))
def test_a_page_names_the_owner_that_its_rule_asks(name: str) -> None:
    head = (ROOT / "docs" / "runbooks" / f"{name}.md").read_text(encoding="utf-8").split("---")[1]

    assert yaml.safe_load(head)["owner"] == RULES[name]["labels"]["owner"]


@pytest.mark.parametrize("name", sorted(name for name, rule in RULES.items() if rule["labels"]["severity"] == "page"))
def test_whoever_is_woken_finds_the_alert_on_the_first_page(name: str) -> None:
    assert name in (ROOT / "docs" / "on-call.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(RULES))
def test_rule_asks_for_metrics_that_are_told(name: str) -> None:
    assert set(re.findall(r"cutover_\w+", RULES[name]["expr"])) <= set(FAMILIES)


@pytest.mark.parametrize("name", sorted(MUTES))
def test_what_holds_an_alert_back_is_no_less_urgent(name: str) -> None:
    assert {name, *MUTES[name]} <= set(SEVERITIES)
    assert name not in MUTES[name]
    assert all(URGENCY[SEVERITIES[name]] <= URGENCY[SEVERITIES[muted]] for muted in MUTES[name])


def test_no_two_alerts_hold_each_other_back() -> None:
    assert [(a, b) for a, muted in MUTES.items() for b in muted if a in MUTES.get(b, ())] == []


def test_alerts_are_held_back_within_one_pipeline_alone() -> None:
    assert {tuple(rule["equal"]) for rule in ROUTING["inhibit_rules"]} == {("pipeline",)}


def test_example_sends_to_loopback_alone() -> None:
    addresses = [hook["url"] for one in ROUTING["receivers"] for hook in one.get("webhook_configs", ())]

    assert addresses
    assert all(address.startswith("http://127.0.0.1:") for address in addresses)
