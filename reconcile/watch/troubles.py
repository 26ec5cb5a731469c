"""What the last comparison left behind: findings, broken seals, and pins that outlive their files."""

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
from cutover.reconcile.judgement import history, records
from cutover.reconcile.judgement.audits import audit_record
from cutover.reconcile.judgement.lifecycle import DifferenceState
from cutover.reconcile.judgement.records import RecordedComparison
from cutover.reconcile.result.outcome import Verdict
from cutover.reconcile.result.text import number
from cutover.reconcile.verify import record
from cutover.reconcile.watch.alerts.catalogue import ALERTS_BY_NAME
from cutover.reconcile.watch.facts import Pin, Regression, Trouble
from cutover.settings import Settings

_INTERVAL = re.compile(r"interval (\d+) (hour|day|week)s?\Z", re.IGNORECASE)
_HOURS = {"hour": 1, "day": 24, "week": 168}
_DELTAS_OWN = timedelta(days=7)


def of_comparison(settings: Settings, pipeline: Pipeline) -> Iterator[Trouble]:
    """Yield why the newest comparison was none, and what any left unexplained that no later one judged again.

    Raises:
        LakeError: The history cannot be read.
    """
    lines, version = history.of_now(settings, pipeline)
    standing = records.list_standing(lines, version)
    uncompared = [one for one in standing if not one.is_comparable]
    diverged = [one for one in standing if one.verdict is Verdict.DIVERGED]
    if uncompared:
        yield from _breaches(uncompared[-1].result)
    left = history.open_differences(settings, pipeline)
    counted = Counter(one.state for one in left.values())
    if diverged and not _all_pending(diverged[-1], counted):
        newest = diverged[-1]
        text = f"{number(records.count_unexplained(newest))} (window, key) rows of final windows differ without a cause"
        yield Trouble(runbook="DivergenceUnexplained", text=f"{text}, epoch {newest.epoch}, run {newest.run_id}")
        return
    if not diverged and counted[DifferenceState.OPEN]:
        first = min(one.window_start for one in left.values() if one.state is DifferenceState.OPEN)
        many = number(counted[DifferenceState.OPEN])
        text = f"{many} (window, key) rows differed without a cause and were not compared since"
        yield Trouble(runbook="DivergenceUnexplained", text=f"{text}, the first in window {first}")


def _all_pending(newest: RecordedComparison, counted: Counter[DifferenceState]) -> bool:
    """Return whether all that a comparison left without a cause is too young to wake anybody."""
    is_whole = sum(counted.values()) >= records.count_unexplained(newest)
    return is_whole and not counted[DifferenceState.OPEN] and counted[DifferenceState.PENDING] > 0


def regression(settings: Settings, pipeline: Pipeline) -> Regression | None:
    """Return what an audit found that nothing has refuted since.

    Raises:
        LakeError: The record of the audits cannot be read.
    """
    found = audit_record.find_regression(settings, pipeline)
    if found is None:
        return None
    first = visible(found.examples[0]) if found.examples else "none that was listed"
    return Regression(rows=found.unexplained, first=first, epoch=found.epoch, at=found.at)


def of_checks(settings: Settings, pipeline: Pipeline) -> Iterator[Trouble]:
    """Yield the violated checks that no later run has judged again.

    Raises:
        LakeError: The record of the checks cannot be read.
    """
    found = record.list_standing(settings, pipeline)
    if found:
        more = f" (and {len(found) - 1} more checks)" if len(found) > 1 else ""
        yield Trouble(runbook="InvariantBroken", text=visible(f"{found[0].check}: {found[0].text}{more}"))


def _breaches(result: Mapping[str, Any]) -> Iterator[Trouble]:
    for breach in result.get("seal", {}).get("breaches", []):
        if breach.get("runbook") in ALERTS_BY_NAME:
            yield Trouble(runbook=breach["runbook"], text=visible(str(breach["message"]).splitlines()[0]))


def of_others(settings: Settings, pipeline: Pipeline) -> Iterator[Trouble]:
    """Yield what another writer did to the rows of a table.

    Raises:
        LakeError: A table cannot be read.
    """
    for change, _ in table_weights.changes(settings, pipeline):
        if change.kind is Kind.FOREIGN:
            yield Trouble(runbook=change.runbook, text=visible(change.sentence))


def pins(settings: Settings, pipeline: Pipeline, *, now: datetime) -> Iterator[Pin]:
    """Yield the pins in force, each with the time from which its files may go once a fold has replaced them.

    Raises:
        LakeError: The pins or the epoch log cannot be read.
    """
    version = versions.current(settings, pipeline)
    held = list_held(settings, pipeline.name, now=now)
    if version is None or not held or not delta.exists(version.uri):
        return
    kept = _retention_of(delta.open_table(version.uri).metadata().configuration)
    for row in held:
        yield Pin(
            holder=row["holder"],
            epoch=row["epoch"],
            expires_at=row["expires_at"],
            files_until=row["at"] + kept,
        )


def _retention_of(configuration: Mapping[str, str]) -> timedelta:
    """Return how long a table keeps files that it no longer lists; Delta's own week where it does not say."""
    found = _INTERVAL.match(configuration.get("delta.deletedFileRetentionDuration", ""))
    return timedelta(hours=int(found[1]) * _HOURS[found[2].lower()]) if found else _DELTAS_OWN
