"""The rules as Prometheus runs them, and one incident as Alertmanager sends it."""

import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from cutover.reconcile.watch.alerts.catalogue import ALERTS, make_alert, render_routing
from tests.support.servers.alerting import alertmanager, fetch, find_program, listening
from tests.support.suite.until import until

ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "infra" / "alerts" / "cutover.rules.yml"
CAUSE = """p"} == 1 or vector(1) or x{a="b\\"""  # a name that wants out of its label
LOOK = 'cutover_watch_last_sample_timestamp_seconds{pipeline="clicks"}'


def quote_label(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def series(alert: str, *, pipeline: str = "clicks", values: str = "0 1 1 0") -> dict[str, str]:
    severity = make_alert(alert, "").severity
    labels = f'pipeline={quote_label(pipeline)},alert="{alert}",severity="{severity}"'
    return {"series": f"cutover_alert_firing{{{labels}}}", "values": values}


def expect_alerts(name: str, at: str, *fire: dict[str, Any]) -> dict[str, Any]:
    return {"eval_time": at, "alertname": name, "exp_alerts": list(fire)}


def fires(name: str, pipeline: str = "clicks", firing: Iterable[str] = ()) -> dict[str, Any]:
    """Return what Prometheus is expected to say of an alert that fires."""
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"][0]["rules"]
    (rule,) = (rule for rule in rules if rule["alert"] == name)
    words = "".join(f"{alert} " for alert in sorted(firing or [name]))
    return {
        "exp_labels": {"pipeline": pipeline, "alert": name, **rule["labels"]},
        "exp_annotations": {
            "summary": f"{pipeline}: {name}; fires now: {words}",
            "runbook": f"docs/runbooks/{name}.md",
        },
    }


def silence(name: str, at: str, labels: dict[str, str] | None, **annotations: str) -> dict[str, Any]:
    """Return that a rule of silence fires with some labels, or does not (None)."""
    page = {"runbook": "docs/runbooks/AlertsSilent.md", **annotations}
    expected_alerts = (
        [] if labels is None else [{"exp_labels": {**labels, "owner": "platform"}, "exp_annotations": page}]
    )
    return expect_alerts(name, at, *expected_alerts)


def check(tmp_path: Path, tests: list[dict[str, Any]]) -> None:
    """Run promtool over tests in its own form."""
    file = tmp_path / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    command = [find_program("promtool"), "test", "rules", str(file)]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert completed.returncode == 0, completed.stdout + completed.stderr


def test_promtool_takes_the_rules() -> None:
    command = [find_program("promtool"), "check", "rules", str(RULES)]

    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def test_amtool_takes_the_routing() -> None:
    command = [find_program("amtool"), "check-config", str(RULES.with_name("alertmanager.example.yml"))]

    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def test_every_alert_fires_while_it_is_told_and_clears(tmp_path: Path) -> None:
    tests = [
        {
            "interval": "1m",
            "input_series": [series(spec.name)],
            "alert_rule_test": [
                expect_alerts(spec.name, "0m"),
                expect_alerts(spec.name, "1m", fires(spec.name)),
                expect_alerts(spec.name, "3m"),
            ],
        }
        for spec in ALERTS
    ]

    check(tmp_path, tests)


def test_alert_names_what_fires_beside_it_in_its_own_pipeline(tmp_path: Path) -> None:
    input_series = [series("StreamNotRunning"), series("KafkaUnreachable"), series("NoInput", pipeline="other")]
    expected = fires("StreamNotRunning", firing=["KafkaUnreachable", "StreamNotRunning"])

    check(
        tmp_path,
        [
            {
                "interval": "1m",
                "input_series": input_series,
                "alert_rule_test": [expect_alerts("StreamNotRunning", "1m", expected)],
            }
        ],
    )


def test_hostile_name_of_a_pipeline_stays_a_label(tmp_path: Path) -> None:
    input_series = [series("StreamNotRunning", pipeline=CAUSE), series("NoInput")]
    expected = fires("StreamNotRunning", pipeline=CAUSE)

    check(
        tmp_path,
        [
            {
                "interval": "1m",
                "input_series": input_series,
                "alert_rule_test": [expect_alerts("StreamNotRunning", "1m", expected)],
            }
        ],
    )


def test_page_of_no_alert_fires_as_another_one(tmp_path: Path) -> None:
    labels = {"pipeline": "clicks", "alert": "KafkaRefused", "severity": "ticket", "owner": "pipeline"}
    notes = {"summary": "clicks: KafkaRefused", "runbook": "docs/runbooks/KafkaRefused.md"}
    expected = {"exp_labels": labels, "exp_annotations": notes}

    check(
        tmp_path,
        [
            {
                "interval": "1m",
                "input_series": [series("KafkaRefused")],
                "alert_rule_test": [expect_alerts("OtherAlert", "0m"), expect_alerts("OtherAlert", "1m", expected)],
            }
        ],
    )


def test_silence_is_an_alert(tmp_path: Path) -> None:
    old = {"pipeline": "clicks", "severity": "page"}
    say_old = "clicks: not watched for 6m 0s; none of its alerts can fire"
    driver = {"job": "cutover-driver", "driver": "clicks", "instance": "i", "severity": "ticket"}
    silent_driver = "the driver clicks at i does not answer"
    broken = "node_exporter on i cannot read a file of metrics; alerts may be missing"
    none = "no pipeline is watched: no file of `cutover watch P --metrics` is scraped"
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": LOOK, "values": "0x10"}],
            "alert_rule_test": [
                silence("WatchSilent", "5m", None),
                silence("WatchSilent", "6m", old, summary=say_old),
                silence("WatchMissing", "9m", None),
            ],
        },
        {
            "interval": "1m",
            "input_series": [
                {"series": 'up{job="cutover-driver",driver="clicks",instance="i"}', "values": "1 0x9"},
                {"series": 'node_textfile_scrape_error{instance="i"}', "values": "1x9"},
            ],
            "alert_rule_test": [
                silence("DriverNotScraped", "2m", None),
                silence("DriverNotScraped", "3m", driver, summary=silent_driver),
                silence("MetricsFileBroken", "5m", {"instance": "i", "severity": "page"}, summary=broken),
                silence("WatchMissing", "4m", None),
                silence("WatchMissing", "5m", {"severity": "page"}, summary=none),
                silence("AlwaysFiring", "0m", {"severity": "none"}, summary="alerts are evaluated and sent"),
            ],
        },
    ]

    check(tmp_path, tests)


def test_of_two_pipelines_the_one_whose_looks_are_gone_is_named(tmp_path: Path) -> None:
    input_series = [
        {"series": LOOK, "values": "0+60x20"},
        {"series": LOOK.replace("clicks", "sales"), "values": "0+60x3 _x17"},
    ]
    silent_pipeline = {"pipeline": "sales", "severity": "page"}
    summary = "sales: not watched for 6m 0s; none of its alerts can fire"
    tests = [silence("WatchSilent", "8m", None), silence("WatchSilent", "9m", silent_pipeline, summary=summary)]

    check(tmp_path, [{"interval": "1m", "input_series": input_series, "alert_rule_test": tests}])


def test_failed_task_is_an_alert(tmp_path: Path) -> None:
    labels = {"pipeline": "clicks", "task": "gate", "severity": "ticket", "owner": "pipeline"}
    notes = {
        "summary": "clicks: the newest gate run ended with an error",
        "runbook": "docs/runbooks/TaskFailed.md",
    }
    failed_task = {"series": 'cutover_task_failed{pipeline="clicks",task="gate"}', "values": "0 1 0"}

    check(
        tmp_path,
        [
            {
                "interval": "1m",
                "input_series": [failed_task],
                "alert_rule_test": [
                    expect_alerts("TaskFailed", "0m"),
                    expect_alerts("TaskFailed", "1m", {"exp_labels": labels, "exp_annotations": notes}),
                    expect_alerts("TaskFailed", "2m"),
                ],
            }
        ],
    )


def post(address: str, names: Iterable[str], pipeline: str) -> None:
    """Send alerts as Prometheus does."""
    now = datetime.now(UTC)
    times = {"startsAt": now.isoformat(), "endsAt": (now + timedelta(hours=1)).isoformat()}
    severities = {spec.name: spec.severity for spec in ALERTS}
    alerts = [
        {"labels": {"alertname": name, "pipeline": pipeline, "severity": severities[name]}, **times} for name in names
    ]
    assert fetch(f"{address}/api/v2/alerts", alerts) is not None


def states(address: str) -> dict[str, str]:
    alerts: list[dict[str, Any]] = fetch(f"{address}/api/v2/alerts") or []
    return {
        f"{alert['labels']['pipeline']}/{alert['labels']['alertname']}": alert["status"]["state"] for alert in alerts
    }


def quick_routing(hook: str) -> str:
    """Return the example with the addresses of a test, and without its waiting."""
    text = render_routing().replace("http://127.0.0.1:9095", hook)
    for slow, quick in (("group_wait: 30s", "group_wait: 1s"), ("group_interval: 5m", "group_interval: 1s")):
        assert slow in text
        text = text.replace(slow, quick)
    return text


INCIDENT = ("KafkaUnreachable", "StreamNotRunning", "NoInput", "BatchNotFresh")


@pytest.fixture
def routed(tmp_path: Path) -> tuple[dict[str, str], dict[str, list[list[str]]]]:
    """Return the state of every alert of three pipelines, and what came of them, by web hook."""
    with listening() as (url, hook), alertmanager(tmp_path, quick_routing(url)) as address:
        post(address, INCIDENT, "one")
        post(address, ("LogDataLost", "InvariantBroken", "StreamNotRunning"), "two")
        post(address, ("KafkaUnreachable", "NoInput", "DiskHeadroomLow"), "three")
        expected_counts = {("/pages", 2), ("/tickets", 1)}
        until(lambda: expected_counts <= {(path, len(hook.alerts(path))) for path in ("/pages", "/tickets")}, within=60)
        alert_states = states(address)
        post(address, ("DivergenceUnexplained",), "four")  # a later one: all earlier notifications are sent before it
        until(lambda: ["DivergenceUnexplained"] in hook.alerts("/pages"), within=60)
        return alert_states, {path: hook.alerts(path) for path in ("/pages", "/tickets")}


def test_one_incident_is_one_page(routed: tuple[dict[str, str], dict[str, list[list[str]]]]) -> None:
    alert_states, notifications = routed

    assert sorted(notifications["/pages"]) == [
        ["DivergenceUnexplained"],
        ["InvariantBroken", "LogDataLost"],
        ["StreamNotRunning"],
    ]
    assert notifications["/tickets"] == [["DiskHeadroomLow", "KafkaUnreachable"]]
    assert {name for name, state in alert_states.items() if state == "suppressed"} == {
        "one/KafkaUnreachable",
        "one/NoInput",
        "one/BatchNotFresh",
        "two/StreamNotRunning",
        "three/NoInput",
    }
