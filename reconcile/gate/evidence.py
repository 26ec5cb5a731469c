"""What speaks for or against a move, as it is read from the lake and the log."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from cutover.definition.fingerprint import result_fingerprint
from cutover.definition.pipeline import Pipeline
from cutover.errors import LogError
from cutover.lake import control, tables, versions
from cutover.lake.epochs import EpochLog, EpochRecord
from cutover.lake.versions import Version
from cutover.log.kafka import LogClient
from cutover.settings import Settings
from reconcile.gate.decide import Decision, Evidence, Replay, Run
from reconcile.report.verdicts import EXPLAINED_BEYOND_POLICY

COUNTS = frozenset({"CONSISTENT", "EXPLAINED"})


def read(settings: Settings, pipeline: Pipeline) -> Evidence:
    """Return the evidence for a pipeline as it is defined now.

    Raises:
        LakeError: A table of the lake cannot be read. A log that does not answer is evidence too: `replay` is None.
    """
    version = versions.current(settings, pipeline)
    if version is None:
        nothing = Replay(retention=None, needed=None)
        return Evidence(result_fingerprint=result_fingerprint(pipeline), replay=nothing)
    rows = control.read(settings, "reconciliations", pipeline.name)
    history = control.read(settings, "gate", pipeline.name)
    return Evidence(
        runs=since(runs(rows, version), history),
        replay=_replay(settings, pipeline, version),
        result_fingerprint=version.result_fingerprint,
        stream_version=version.number,
    )


def runs(rows: Sequence[Mapping[str, Any]], version: Version) -> tuple[Run, ...]:
    """Return the reconciliations of a version, oldest first. What was not comparable may name no version: it counts."""
    wanted = {(version.result_fingerprint, version.number), (version.result_fingerprint, None), (None, None)}
    mine = [row for row in rows if (row["result_fingerprint"], row["stream_version"]) in wanted]
    return tuple(_run(row) for row in sorted(mine, key=lambda row: row["at"]))


def since(found: tuple[Run, ...], history: Sequence[Mapping[str, Any]]) -> tuple[Run, ...]:
    """Return the runs that no earlier move has used: made after the last one, at a cut ahead of what it counted."""
    moves = [row for row in history if row["event"] in {"advanced", "rolled_back"}]
    if not moves:
        return found
    used = max((_last_epoch(row["evidence"]) for row in moves), default=-1)
    return tuple(r for r in found if r.at > moves[-1]["at"] and (r.epoch > used or not r.within))


def _last_epoch(evidence: str | None) -> int:
    counted = json.loads(evidence or "{}").get("counted", [])
    return max((int(run["epoch"]) for run in counted), default=-1)


def _run(row: Mapping[str, Any]) -> Run:
    result = json.loads(row["result"] or "{}")
    within = row["exit_code"] == 0 and row["verdict"] in COUNTS
    outcome = EXPLAINED_BEYOND_POLICY if row["verdict"] == "EXPLAINED" and not within else row["verdict"]
    causes = {name: int(cause["rows"]) for name, cause in result.get("causes", {}).items() if cause["rows"]}
    return Run(
        run_id=row["run_id"],
        at=row["at"],
        epoch=-1 if row["epoch"] is None else row["epoch"],
        outcome=outcome,
        within=within,
        windows=int(result.get("windows", {}).get("compared", 0)),
        rows_by_cause=tuple(sorted(causes.items())),
    )


def by_cause(found: Iterable[Run]) -> dict[str, int]:
    """Return the different (window, key) rows of some runs by cause."""
    total: Counter[str] = Counter()
    for run in found:
        total.update(dict(run.rows_by_cause))
    return dict(total)


def _replay(settings: Settings, pipeline: Pipeline, version: Version) -> Replay | None:
    try:
        client = LogClient(settings)
        config = client.config(pipeline.source.name)
        earliest, latest = client.earliest(pipeline.source.name), client.latest(pipeline.source.name)
    except LogError:
        return None
    unread = sum(latest[p] - earliest.get(p, 0) for p in latest)
    records = EpochLog(version.uri).records() if tables.exists(version.uri) else []
    return Replay(retention=retention(config), needed=replay_time(records, unread))


def retention(config: Mapping[str, str]) -> timedelta | None:
    """Return how long a topic keeps every record: None for ever, zero if it is compacted or bounded by size."""
    is_bounded = int(config.get("retention.bytes", "-1")) >= 0
    if "compact" in config.get("cleanup.policy", "delete") or is_bounded:
        return timedelta(0)
    kept = int(config.get("retention.ms", "-1"))
    return None if kept < 0 else timedelta(milliseconds=kept)


def replay_time(records: Sequence[EpochRecord], to_read: int) -> timedelta | None:
    """Return how long reading a number of records takes, at the pace of the epochs so far; None before the first."""
    read = sum(record.records for record in records)
    spent = sum(record.seconds for record in records if record.records)
    return None if read == 0 or spent == 0 else timedelta(seconds=spent / read * to_read)


def record(decision: Decision, evidence: Evidence) -> str:
    """Return what the gate's history keeps of a decision: the conditions, the runs that counted, and a hash of both."""
    kept = {
        "conditions": [asdict(condition) for condition in decision.conditions],
        "counted": [{"run_id": run.run_id, "epoch": run.epoch, "at": run.at.isoformat()} for run in decision.counted],
        "result_fingerprint": evidence.result_fingerprint,
        "stream_version": evidence.stream_version,
    }
    return json.dumps(kept | {"hash": digest(kept)}, sort_keys=True)


def digest(kept: Mapping[str, Any]) -> str:
    """Return the sha256 of evidence without its own hash, as canonical JSON."""
    plain = {name: value for name, value in kept.items() if name != "hash"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def fresh_until(found: Sequence[Run], lifetime: timedelta) -> datetime | None:
    """Return when the oldest run that counts expires."""
    return found[0].at + lifetime if found else None
