"""What the last comparison left behind: findings, broken seals, and pins that outlive their files."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from cutover.definition.pipeline import Pipeline
from cutover.lake import control, tables, versions
from cutover.settings import Settings
from reconcile.report.text import number, visible
from reconcile.result import Verdict
from reconcile.watch.alert import SEVERITIES
from reconcile.watch.facts import Pin, Trouble

_INTERVAL = re.compile(r"interval (\d+) (hour|day|week)s?\Z", re.IGNORECASE)
_HOURS = {"hour": 1, "day": 24, "week": 168}
_DELTAS_OWN = timedelta(days=7)


def of_comparison(settings: Settings, pipeline: Pipeline) -> Iterator[Trouble]:
    """Yield why the newest comparison was none, and what the newest that was one left unexplained.

    Raises:
        LakeError: The history cannot be read.
    """
    version = versions.current(settings, pipeline)
    rows = control.read(settings, "reconciliations", pipeline.name)
    fingerprints = {None, version.result_fingerprint if version is not None else None}
    mine = [row for row in rows if row["result_fingerprint"] in fingerprints]
    if mine and mine[-1]["verdict"] == Verdict.NOT_COMPARABLE:
        yield from _breaches(mine[-1])
    compared = [row for row in mine if row["verdict"] != Verdict.NOT_COMPARABLE]
    if compared and compared[-1]["verdict"] == Verdict.DIVERGED:
        rows_left = json.loads(compared[-1]["result"] or "{}").get("policy", {}).get("unexplained", 0)
        text = f"{number(rows_left)} (window, key) rows of final windows differ without a cause"
        yield Trouble(runbook="DivergenceUnexplained", text=f"{text}, run {compared[-1]['run_id']}")


def _breaches(row: Mapping[str, Any]) -> Iterator[Trouble]:
    for breach in json.loads(row["result"] or "{}").get("seal", {}).get("breaches", []):
        if breach.get("runbook") in SEVERITIES:
            yield Trouble(runbook=breach["runbook"], text=visible(str(breach["message"]).splitlines()[0]))


def pins(settings: Settings, pipeline: Pipeline, *, now: datetime) -> Iterator[Pin]:
    """Yield the pins in force, each with the time from which its files may go once a fold has replaced them.

    Raises:
        LakeError: The pins or the epoch log cannot be read.
    """
    version = versions.current(settings, pipeline)
    last: dict[tuple[int, str], dict[str, Any]] = {}
    for row in control.read(settings, "pins", pipeline.name):
        last[row["epoch"], row["holder"]] = row
    held = [row for row in last.values() if not row["released"] and row["expires_at"] > now]
    if version is None or not held or not tables.exists(version.uri):
        return
    kept = _kept(tables.open_table(version.uri).metadata().configuration)
    for row in held:
        yield Pin(
            holder=row["holder"],
            epoch=row["epoch"],
            expires_at=row["expires_at"],
            files_until=row["at"] + kept,
        )


def _kept(configuration: Mapping[str, str]) -> timedelta:
    """Return how long a table keeps files that it no longer lists; Delta's own week where it does not say."""
    found = _INTERVAL.match(configuration.get("delta.deletedFileRetentionDuration", ""))
    return timedelta(hours=int(found[1]) * _HOURS[found[2].lower()]) if found else _DELTAS_OWN
