"""Problems that comparisons, checks, audits and tables have recorded, and the pins in force."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control import versions
from cutover.lake.control.pins import list_held
from cutover.lake.integrity import table_weights
from cutover.lake.integrity.foreign_commits import Kind
from cutover.lake.tables import delta
from cutover.output.cells import visible
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.text import number
from cutover.reconcile.verdict import history, records
from cutover.reconcile.verdict.audits import audit_record
from cutover.reconcile.verdict.lifecycle import DifferenceState
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.reconcile.verify import record
from cutover.reconcile.watch.alerts.catalogue import ALERTS_BY_NAME
from cutover.reconcile.watch.facts import Pin, Problem, Regression
from cutover.settings import Settings

_INTERVAL = re.compile(r"interval (\d+) (hour|day|week)s?\Z", re.IGNORECASE)
_HOURS = {"hour": 1, "day": 24, "week": 168}
_DEFAULT_FILE_RETENTION = timedelta(days=7)  # of Delta


def list_comparison_problems(settings: Settings, pipeline: Pipeline) -> Iterator[Problem]:
    """Yield why the latest comparison was not comparable, and the differences without a cause that are still open.

    Raises:
        LakeError: The history cannot be read.
    """
    lines, version = history.read_current_lines(settings, pipeline)
    comparisons = records.list_standing(lines, version)
    not_comparable = [comparison for comparison in comparisons if not comparison.is_comparable]
    diverged = [comparison for comparison in comparisons if comparison.verdict is Verdict.DIVERGED]
    if not_comparable:
        yield from _list_breaches(not_comparable[-1].result)
    differences = history.read_open_differences(settings, pipeline)
    counts = Counter(difference.state for difference in differences.values())
    if diverged and not _are_all_pending(diverged[-1], counts):
        latest = diverged[-1]
        rows = number(records.count_unexplained(latest))
        text = f"{rows} (window, key) rows of final windows differ without a cause"
        yield Problem(runbook="DivergenceUnexplained", text=f"{text}, epoch {latest.epoch}, run {latest.run_id}")
    elif not diverged and counts[DifferenceState.OPEN]:
        first_window = min(d.window_start for d in differences.values() if d.state is DifferenceState.OPEN)
        rows = number(counts[DifferenceState.OPEN])
        text = f"{rows} (window, key) rows differed without a cause and have not been compared since"
        yield Problem(runbook="DivergenceUnexplained", text=f"{text}, the first in window {first_window}")


def _are_all_pending(latest: RecordedComparison, counts: Counter[DifferenceState]) -> bool:
    """Return whether all differences without a cause are too recent to alert anyone."""
    is_complete = sum(counts.values()) >= records.count_unexplained(latest)
    return is_complete and not counts[DifferenceState.OPEN] and counts[DifferenceState.PENDING] > 0


def _list_breaches(result: Mapping[str, Any]) -> Iterator[Problem]:
    for breach in result.get("seal", {}).get("breaches", []):
        if breach.get("runbook") in ALERTS_BY_NAME:
            yield Problem(runbook=breach["runbook"], text=visible(str(breach["message"]).splitlines()[0]))


def find_regression(settings: Settings, pipeline: Pipeline) -> Regression | None:
    """Find the regression that an audit found and that nothing has refuted since.

    Raises:
        LakeError: The record of the audits cannot be read.
    """
    audit = audit_record.find_regression(settings, pipeline)
    if audit is None:
        return None
    example = visible(audit.examples[0]) if audit.examples else "none that was listed"
    return Regression(rows=audit.unexplained, example=example, epoch=audit.epoch, at=audit.at)


def list_violated_checks(settings: Settings, pipeline: Pipeline) -> Iterator[Problem]:
    """Yield the violated checks that no later run has evaluated again, as one problem.

    Raises:
        LakeError: The record of the checks cannot be read.
    """
    violations = record.list_open_violations(settings, pipeline)
    if violations:
        more = f" (and {len(violations) - 1} more checks)" if len(violations) > 1 else ""
        text = visible(f"{violations[0].check}: {violations[0].text}{more}")
        yield Problem(runbook="InvariantBroken", text=text)


def list_foreign_writes(settings: Settings, pipeline: Pipeline) -> Iterator[Problem]:
    """Yield the changes that another writer made to the rows of a table.

    Raises:
        LakeError: A table cannot be read.
    """
    for change, _ in table_weights.find_changes(settings, pipeline):
        if change.kind is Kind.FOREIGN:
            yield Problem(runbook=change.runbook, text=visible(change.sentence))


def list_pins(settings: Settings, pipeline: Pipeline, *, now: datetime) -> Iterator[Pin]:
    """Yield the pins in force, each with the time from which a fold may let its files be deleted.

    Raises:
        LakeError: The pins or the epoch log cannot be read.
    """
    version = versions.current(settings, pipeline)
    rows = list_held(settings, pipeline.name, now=now)
    if version is None or not rows or not delta.exists(version.uri):
        return
    retention = _parse_file_retention(delta.open_table(version.uri).metadata().configuration)
    for row in rows:
        yield Pin(
            holder=row.holder,
            epoch=row.epoch,
            expires_at=row.expires_at,
            files_until=row.at + retention,
        )


def _parse_file_retention(configuration: Mapping[str, str]) -> timedelta:
    """Parse how long a table keeps files that it no longer lists; without a setting, Delta keeps them for a week."""
    match = _INTERVAL.match(configuration.get("delta.deletedFileRetentionDuration", ""))
    return timedelta(hours=int(match[1]) * _HOURS[match[2].lower()]) if match else _DEFAULT_FILE_RETENTION
