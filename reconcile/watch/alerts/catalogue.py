"""List of all alerts, their evaluation over the facts of one moment, and the files that follow from the list.

`make alert-rules` writes these files, and a test fails where they differ: `infra/alerts/` gets the rules for Prometheus
and an example of routing for Alertmanager, the index of runbooks its two lists of alerts, and the runbook of each alert
the head that its spec implies.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cutover import runbooks
from cutover.output.cells import visible
from cutover.reconcile.watch.alerts import data, driver
from cutover.reconcile.watch.facts import (
    SEVERITIES,
    Alert,
    AlertSpec,
    Problem,
    UnknownFact,
    UnknownFactError,
    WatchFacts,
)

GROUPS: Mapping[str, tuple[AlertSpec, ...]] = {
    "records of the log are lost, or soon will be": driver.LOG_ALERTS,
    "a table was changed or damaged from outside": data.TABLE_ALERTS,
    "the driver does not process the log": driver.DRIVER_ALERTS,
    "a result is wrong, late or unverified": data.RESULT_ALERTS,
    "event time runs ahead or stops": data.EVENT_TIME_ALERTS,
    "records are not as the definition expects": data.RECORD_ALERTS,
}
"""Alerts by what they mean, causes before consequences."""

ALERTS: tuple[AlertSpec, ...] = tuple(spec for group in GROUPS.values() for spec in group)

ALERTS_BY_NAME: Mapping[str, AlertSpec] = {spec.name: spec for spec in ALERTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Outcome of every rule."""

    alerts: tuple[Alert, ...]  # that fire, most urgent first, each name once
    undecided: tuple[str, ...]  # alerts that do not fire and whose facts are unknown


def evaluate_alerts(facts: WatchFacts) -> Evaluation:
    """Evaluate every rule, and add the problems that the driver, tables and comparisons report under other names."""
    texts: dict[str, str] = {}
    undecided: list[str] = []
    for problem in _list_driver_failure(facts):
        texts.setdefault(problem.runbook, problem.text)
    for spec in ALERTS:
        try:
            for text in spec.rule(facts):
                texts.setdefault(spec.name, text)
        except UnknownFactError:
            undecided.append(spec.name)
    for problem in _list_reported_problems(facts):
        texts.setdefault(problem.runbook, problem.text)
    firing = [make_alert(name, text) for name, text in texts.items()]
    return Evaluation(
        alerts=tuple(sorted(firing, key=lambda alert: SEVERITIES.index(alert.severity))),
        undecided=tuple(name for name in undecided if name not in texts),
    )


def list_firing(facts: WatchFacts) -> tuple[Alert, ...]:
    """Return the alerts that fire, most urgent first, each name once."""
    return evaluate_alerts(facts).alerts


def make_alert(name: str, text: str) -> Alert:
    """Build a firing alert; a runbook that is no alert of the list, which an error may name, is a ticket."""
    spec = ALERTS_BY_NAME.get(name)
    return Alert(name=name, text=text, severity="ticket" if spec is None else spec.severity)


def _list_driver_failure(facts: WatchFacts) -> Iterator[Problem]:
    """Yield why the driver failed, under the runbook that its error named."""
    state = facts.driver
    if not isinstance(state, UnknownFact) and state.state == "FAILED":
        text = visible(state.error or "the driver failed")
        yield Problem(runbook=state.runbook or "StreamNotRunning", text=text)


def _list_reported_problems(facts: WatchFacts) -> Iterator[Problem]:
    """Yield the problems that are reported; a report that could not be read holds none."""
    for problems in (facts.problems, facts.comparison_problems, facts.violated_checks, facts.foreign_writes):
        if not isinstance(problems, UnknownFact):
            yield from problems


REPOSITORY = Path(__file__).resolve().parents[3]
_RUNBOOKS = "docs/runbooks"

SILENT_SECONDS = 300
"""Age of the newest sample of a watch from which it counts as silent; it is missed for a week."""
_LATEST_SAMPLE = "cutover_watch_last_sample_timestamp_seconds"

_HEAD = "# Written by `make alert-rules` from reconcile/watch/alerts/; docs/metrics.md describes how to use it.\n"
_FIRING_QUERY = '(printf "cutover_alert_firing{pipeline=%q} == 1" $labels.pipeline)'
_FIRING_NAMES = f'{{{{ range query {_FIRING_QUERY} | sortByLabel "alert" }}}}{{{{ .Labels.alert }}}} {{{{ end }}}}'

_BEGIN, _END = "<!-- {region}: written by `make alert-rules` -->\n", "<!-- end of {region} -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusRule:
    """Alerting rule of Prometheus."""

    name: str
    expression: str  # PromQL
    severity: str
    owner: str
    summary: str
    runbook: str  # name of a page in docs/runbooks
    pending: str = "0s"

    def to_yaml(self) -> str:
        """Format an entry of the list `rules`."""
        return (
            f"      - alert: {self.name}\n        expr: {_quote(self.expression)}\n        for: {self.pending}\n"
            f"        labels: {{severity: {self.severity}, owner: {self.owner}}}\n"
            f"        annotations:\n          summary: {_quote(self.summary)}\n"
            f"          runbook: {_quote(f'docs/runbooks/{self.runbook}.md')}\n"
        )


SILENCE = (
    PrometheusRule(
        name="WatchSilent",
        expression=f"time() - max by (pipeline) (max_over_time({_LATEST_SAMPLE}[7d])) > {SILENT_SECONDS}",
        severity="page",
        owner="platform",
        summary="{{ $labels.pipeline }}: not watched for {{ $value | humanizeDuration }}; none of its alerts can fire",
        runbook="AlertsSilent",
    ),
    PrometheusRule(
        name="WatchMissing",
        expression=f"absent({_LATEST_SAMPLE})",
        pending="5m",
        severity="page",
        owner="platform",
        summary="no pipeline is watched: no file of `cutover watch P --metrics` is scraped",
        runbook="AlertsSilent",
    ),
    PrometheusRule(
        name="MetricsFileBroken",
        expression="node_textfile_scrape_error > 0",
        pending="5m",
        severity="page",
        owner="platform",
        summary="node_exporter on {{ $labels.instance }} cannot read a file of metrics; alerts may be missing",
        runbook="AlertsSilent",
    ),
    PrometheusRule(
        name="DriverNotScraped",
        expression='up{job="cutover-driver"} == 0',
        pending="2m",
        severity="ticket",
        owner="platform",
        summary="the driver {{ $labels.driver }} at {{ $labels.instance }} does not answer",
        runbook="AlertsSilent",
    ),
    PrometheusRule(
        name="AlwaysFiring",
        expression="vector(1)",
        severity="none",
        owner="platform",
        summary="alerts are evaluated and sent",
        runbook="AlertsSilent",
    ),
)
"""Rules on missing metrics, samples or scrapes; the last one always fires, so that its absence is noticed."""

TASK_FAILED = PrometheusRule(
    name="TaskFailed",
    expression="cutover_task_failed == 1",
    severity="ticket",
    owner="pipeline",
    summary="{{ $labels.pipeline }}: the newest {{ $labels.task }} run ended with an error",
    runbook="TaskFailed",
)
"""Batch run, comparison, check or move of the gate that ended with an error; finding a difference is not an error."""


def list_rules() -> Iterator[PrometheusRule]:
    """Yield a rule for each alert of `cutover watch`, and one for the other runbooks that errors name."""
    for spec in ALERTS:
        yield PrometheusRule(
            name=spec.name,
            expression=f'cutover_alert_firing{{alert="{spec.name}"}} == 1',
            severity=spec.severity,
            owner=spec.owner,
            summary=f"{{{{ $labels.pipeline }}}}: {spec.name}; fires now: {_FIRING_NAMES}",
            runbook=spec.name,
        )
    names = "|".join(spec.name for spec in ALERTS)
    yield PrometheusRule(
        name="OtherAlert",
        expression=f'cutover_alert_firing{{alert!~"{names}"}} == 1',
        severity="ticket",
        owner="pipeline",
        summary="{{ $labels.pipeline }}: {{ $labels.alert }}",
        runbook="{{ $labels.alert }}",
    )


def render_rules() -> str:
    """Render the rules of Prometheus: every alert, failed tasks, and silence."""
    groups = (("cutover", [*list_rules(), TASK_FAILED]), ("cutover-silence", SILENCE))
    texts = (f"  - name: {name}\n    rules:\n{''.join(rule.to_yaml() for rule in rules)}" for name, rules in groups)
    return f"{_HEAD}groups:\n{''.join(texts)}"


def _quote(text: str) -> str:
    """Format a YAML string in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def render_routing() -> str:
    """Render an example for Alertmanager: one notification per pipeline, without the alerts that another suppresses."""
    return _HEAD + _ROUTES + "inhibit_rules:\n" + "".join(_list_inhibitions())


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
  # Replace the addresses: your pager, your tickets, and the monitor that notices when `alive` is no longer called.
  - name: pages
    webhook_configs: [{url: 'http://127.0.0.1:9095/pages', send_resolved: true}]
  - name: tickets
    webhook_configs: [{url: 'http://127.0.0.1:9095/tickets', send_resolved: true}]
  - name: alive
    webhook_configs: [{url: 'http://127.0.0.1:9095/alive', send_resolved: false}]
  - name: shown
"""


def _list_inhibitions() -> Iterator[str]:
    for spec in ALERTS:
        if spec.suppresses:
            yield (
                f"  - source_matchers: ['alertname = {spec.name}']\n"
                f"    target_matchers: ['alertname =~ \"{'|'.join(spec.suppresses)}\"']\n    equal: [pipeline]\n"
            )


def render_runbook_index(text: str) -> str:
    """Return the index of runbooks with its list of pages and its table of alerts."""
    rows = [
        f"| [{spec.name}]({spec.name}.md) | {spec.severity} | {spec.owner} | {spec.symptom} | "
        f"{', '.join(f'`{limit}`' for limit in spec.limits)} |"
        for spec in ALERTS
    ]
    head = ["| alert | severity | owner | symptom | limits |", "|---|---|---|---|---|"]
    text = _replace_region("pages", text, "\n".join(_list_pages()))
    return _replace_region("alerts", text, "\n".join([*head, *rows]))


def _list_pages() -> list[str]:
    """List the alerts that page someone: one line per group, causes before consequences."""
    lines: list[str] = []
    for title, specs in GROUPS.items():
        pages = [f"[{spec.name}]({spec.name}.md)" for spec in specs if spec.severity == "page"]
        if pages:
            lines.append(f"{len(lines) + 1}. {', '.join(pages)}: {title}.")
    silent = ", ".join(rule.name for rule in SILENCE if rule.severity == "page")
    number = len(lines) + 1
    return [
        *lines,
        f"{number}. {silent} ([AlertsSilent](AlertsSilent.md)): no alert above can fire, so any may be true.",
    ]


def _replace_region(region: str, text: str, content: str) -> str:
    begin, end = _BEGIN.format(region=region), _END.format(region=region)
    head, _, region_and_tail = text.partition(begin)
    _, _, tail = region_and_tail.partition(end)
    return f"{head}{begin}{content}\n{end}{tail}"


def render_head(spec: AlertSpec, text: str) -> str:
    """Return the runbook of an alert with the lines of its head that its spec implies."""
    values = {
        "alert": spec.name,
        "severity": spec.severity,
        "owner": spec.owner,
        "drill": spec.name if spec.no_drill is None else f"none ({spec.no_drill})",
    }
    return runbooks.replace_head_values(text, values)


FILES: Mapping[str, Callable[[str], str]] = {
    "infra/alerts/cutover.rules.yml": lambda _: render_rules(),
    "infra/alerts/alertmanager.example.yml": lambda _: render_routing(),
    f"{_RUNBOOKS}/README.md": render_runbook_index,
    **{f"{_RUNBOOKS}/{spec.name}.md": partial(render_head, spec) for spec in ALERTS},
}
"""Path in the repository to a function from the file's current text to the text that it should have."""


if __name__ == "__main__":
    for name, render in FILES.items():
        file = REPOSITORY / name
        file.write_text(render(file.read_text(encoding="utf-8")), encoding="utf-8")
