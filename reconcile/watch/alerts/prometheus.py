"""Files for Prometheus and Alertmanager, written from the list of alerts: `make alert-rules`."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cutover.reconcile.watch.alerts.alert import SEVERITIES
from cutover.reconcile.watch.alerts.owners import MUTES, OWNERS

SILENT_SECONDS = 300
"""How old the last look of a watch may get. One whose file or host is gone is missed for a week."""
_LAST_LOOK = "cutover_watch_last_look_timestamp_seconds"

_HEAD = "# Written by `make alert-rules` from reconcile/watch/alerts/; docs/metrics.md says how to use it.\n"
_FIRING = '(printf "cutover_alert_firing{pipeline=%q} == 1" $labels.pipeline)'
_BESIDE = f'{{{{ range query {_FIRING} | sortByLabel "alert" }}}}{{{{ .Labels.alert }}}} {{{{ end }}}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertingRule:
    """One rule of Prometheus: when it fires, how urgent it is, who is asked, and which page says what to do."""

    name: str
    when: str  # PromQL
    severity: str
    owner: str
    summary: str
    runbook: str  # name of a page in docs/runbooks
    lasting: str = "0s"

    def to_yaml(self) -> str:
        """Return an entry of the list `rules`, indented as it stands there."""
        return (
            f"      - alert: {self.name}\n        expr: {_quote(self.when)}\n        for: {self.lasting}\n"
            f"        labels: {{severity: {self.severity}, owner: {self.owner}}}\n"
            f"        annotations:\n          summary: {_quote(self.summary)}\n"
            f"          runbook: {_quote(f'docs/runbooks/{self.runbook}.md')}\n"
        )


SILENCE = (
    AlertingRule(
        name="WatchSilent",
        when=f"time() - max by (pipeline) (max_over_time({_LAST_LOOK}[7d])) > {SILENT_SECONDS}",
        severity="page",
        owner="platform",
        summary="{{ $labels.pipeline }}: nobody looked for {{ $value | humanizeDuration }}; no alert of it can fire",
        runbook="AlertsSilent",
    ),
    AlertingRule(
        name="WatchMissing",
        when=f"absent({_LAST_LOOK})",
        lasting="5m",
        severity="page",
        owner="platform",
        summary="no pipeline is watched: no file of `cutover watch P --metrics` is scraped",
        runbook="AlertsSilent",
    ),
    AlertingRule(
        name="MetricsFileBroken",
        when="node_textfile_scrape_error > 0",
        lasting="5m",
        severity="page",
        owner="platform",
        summary="node_exporter on {{ $labels.instance }} cannot read a file of metrics; alerts may be missing",
        runbook="AlertsSilent",
    ),
    AlertingRule(
        name="DriverNotScraped",
        when='up{job="cutover-driver"} == 0',
        lasting="2m",
        severity="ticket",
        owner="platform",
        summary="the driver {{ $labels.driver }} at {{ $labels.instance }} does not answer",
        runbook="AlertsSilent",
    ),
    AlertingRule(
        name="AlwaysFiring",
        when="vector(1)",
        severity="none",
        owner="platform",
        summary="alerts are evaluated and sent",
        runbook="AlertsSilent",
    ),
)
"""What fires when metrics, looks or scrapes are missing; the last one always fires, so that its absence is noticed."""

TASK_FAILED = AlertingRule(
    name="TaskFailed",
    when="cutover_task_failed == 1",
    severity="ticket",
    owner="pipeline",
    summary="{{ $labels.pipeline }}: the newest {{ $labels.task }} run ended with an error",
    runbook="TaskFailed",
)
"""A batch run, comparison, check or move of the gate that ended with an error; a difference that it found is none."""


def list_rules() -> Iterator[AlertingRule]:
    """Yield a rule of every alert of `cutover watch`, and the one of what its drivers name beside them."""
    for name, severity in SEVERITIES.items():
        yield AlertingRule(
            name=name,
            when=f'cutover_alert_firing{{alert="{name}"}} == 1',
            severity=severity,
            owner=OWNERS[name],
            summary=f"{{{{ $labels.pipeline }}}}: {name}; fires now: {_BESIDE}",
            runbook=name,
        )
    yield AlertingRule(
        name="OtherAlert",
        when=f'cutover_alert_firing{{alert!~"{"|".join(SEVERITIES)}"}} == 1',
        severity="ticket",
        owner="pipeline",
        summary="{{ $labels.pipeline }}: {{ $labels.alert }}",
        runbook="{{ $labels.alert }}",
    )


def render_rules() -> str:
    """Return the rules of every alert, of failed tasks, and of silence."""
    groups = (("cutover", [*list_rules(), TASK_FAILED]), ("cutover-silence", SILENCE))
    texts = (f"  - name: {name}\n    rules:\n{''.join(rule.to_yaml() for rule in rules)}" for name, rules in groups)
    return f"{_HEAD}groups:\n{''.join(texts)}"


def _quote(text: str) -> str:
    """Return a YAML string in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def render_routing() -> str:
    """Return Alertmanager's example: one notification a pipeline, and none for what follows from another alert."""
    return _HEAD + _ROUTES + "inhibit_rules:\n" + "".join(_inhibitions())


_ROUTES = """\
route:
  receiver: tickets
  group_by: [pipeline]
  group_wait: 30s
  group_interval: 5m
  repeat_interval: 12h
  routes:
    - matchers: ['alertname = AlwaysFiring']
      receiver: alive
      group_wait: 0s
      group_interval: 1m
      repeat_interval: 1m
    - matchers: ['severity = page']
      receiver: pages
      repeat_interval: 4h
    - matchers: ['severity = info']
      receiver: shown
receivers:
  # Put the address of your pager, your tickets, and of what notices that `alive` is not called any more.
  - name: pages
    webhook_configs: [{url: 'http://127.0.0.1:9095/pages', send_resolved: true}]
  - name: tickets
    webhook_configs: [{url: 'http://127.0.0.1:9095/tickets', send_resolved: true}]
  - name: alive
    webhook_configs: [{url: 'http://127.0.0.1:9095/alive', send_resolved: false}]
  - name: shown
"""


def _inhibitions() -> Iterator[str]:
    for name, muted in MUTES.items():
        yield (
            f"  - source_matchers: ['alertname = {name}']\n"
            f"    target_matchers: ['alertname =~ \"{'|'.join(muted)}\"']\n    equal: [pipeline]\n"
        )


FILES = {"cutover.rules.yml": render_rules, "alertmanager.example.yml": render_routing}

if __name__ == "__main__":
    for file_name, render in FILES.items():
        (Path(sys.argv[1]) / file_name).write_text(render(), encoding="utf-8")
