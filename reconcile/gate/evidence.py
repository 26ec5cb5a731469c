"""What speaks for or against a move, as it is read from the lake and the log."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Self

from cutover.definition.compile.fingerprint import batch_fingerprint, result_fingerprint
from cutover.definition.loading import acceptance_files
from cutover.definition.model.pipeline import Expect, Pipeline, Policy
from cutover.definition.windows.window_fn import select_last_window
from cutover.errors import LakeError, LogError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control import losses, versions
from cutover.lake.control.stages import Stage, current_stage, list_moves
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import high_water, table_weights
from cutover.lake.integrity.foreign_commits import Kind
from cutover.lake.journal_rows import GateEvent, Loss
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import log_of, topics_of
from cutover.reconcile.comparison.sides import DIMENSION
from cutover.reconcile.gate import hazards
from cutover.reconcile.gate.evidence_rows import is_ahead
from cutover.reconcile.gate.gate_values import (
    NOT_LOOKED,
    ContractCheck,
    EvidenceRun,
    GateDecision,
    GateEvidence,
    LostWindows,
    Replayability,
    SeenHazard,
)
from cutover.reconcile.report.verdicts import name_outcome
from cutover.reconcile.result.finding import RuleState
from cutover.reconcile.selftest import record as selftests
from cutover.reconcile.verdict import records as recorded
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.reconcile.watch.log_observer import (
    estimate_replay_time,
    find_retained_since,
    find_shortest,
    is_limited_by_size,
    parse_retention,
)
from cutover.reconcile.window_audit import population
from cutover.records.closing import closing
from cutover.settings import Settings
from cutover.timestamps import parse_micros


def read(settings: Settings, pipeline: Pipeline, now: datetime) -> GateEvidence:
    """Return the evidence for a pipeline as it is defined now.

    Args:
        settings: Where the lake and the log are.
        pipeline: The definition.
        now: By the clock of this host, for the ages of what was recorded.

    Raises:
        LakeError: A table of the lake cannot be read. A log that does not answer is evidence too: `replay` is None.
    """
    version = versions.current(settings, pipeline)
    if version is None:
        nothing = Replayability(retention=None, needed=None)
        return GateEvidence(result_fingerprint=result_fingerprint(pipeline), replay=nothing)
    lines = recorded.read(settings, pipeline.name)
    moves = list_moves(settings, pipeline.name)
    records = EpochLog(version.uri).records() if delta.exists(version.uri) else []
    batch = batch_runs.runs(settings, pipeline)
    found = runs(
        lines,
        version,
        batch_definition=batch_fingerprint(pipeline),
        policy=pipeline.policy,
        inputs=EvidenceInputs.of(records, batch),
    )
    self_tests = selftests.list_valid(settings, pipeline)
    return GateEvidence(
        runs=since(found, moves, version),
        replay=_replay(settings, pipeline, records, now),
        losses=list_lost_windows(pipeline, losses.up_to(settings, version), version.number),
        foreign=tuple(list_doubts(settings, pipeline, version)),
        rules=acceptance_files.load(settings, pipeline),
        self_test=self_tests[-1] if self_tests else None,
        earlier_self_tests=tuple(datetime.fromisoformat(test.at) for test in self_tests[:-1]),
        hazards=tuple(_list_hazards(settings, pipeline, records, lines, now)),
        settings_since=hazards.find_change_of_settings(records),
        contract=_find_contract(pipeline.contract, batch),
        expectations=len(pipeline.contract),
        audit_refusal=_find_audit_refusal(settings, pipeline),
        result_fingerprint=version.result_fingerprint,
        stream_version=version.number,
    )


def list_doubts(settings: Settings, pipeline: Pipeline, version: Version) -> Iterator[str]:
    """Yield what somebody else did to the tables, and that the witness of the newest epoch cannot be read."""
    for change, _ in table_weights.changes(settings, pipeline):
        if change.kind is not Kind.HARMLESS:
            yield change.sentence
    try:
        high_water.read_note(version)
    except LakeError as error:
        yield str(error).splitlines()[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceInputs:
    """Times of what comparisons are made from: the epochs of the version in force, and the batch runs."""

    epochs: Mapping[int, datetime] = field(default_factory=dict)  # epoch -> when it was committed
    batch: Mapping[str, datetime] = field(default_factory=dict)  # run id -> when the run ended

    @classmethod
    def of(cls, records: Sequence[EpochRecord], batch: Sequence[BatchRun]) -> Self:
        """Collect the times that the drivers and the batch hosts recorded."""
        return cls(
            epochs={r.epoch: datetime.fromisoformat(r.processing_time) for r in records if r.processing_time},
            batch={run.run_id: datetime.fromisoformat(run.finished) for run in batch},
        )

    def select(self, comparison: RecordedComparison) -> tuple[datetime, ...]:
        """Return the times of what a comparison of the version in force was made from, as far as they are known."""
        epoch = self.epochs.get(comparison.epoch) if comparison.has_cut and comparison.version is not None else None
        batch = self.batch.get(str(comparison.result.get("tables", {}).get("batch_run")))
        return tuple(at for at in (epoch, batch) if at is not None)


def runs(
    lines: Sequence[RecordedComparison],
    version: Version,
    *,
    batch_definition: str | None = None,
    policy: Policy | None = None,
    inputs: EvidenceInputs | None = None,
) -> tuple[EvidenceRun, ...]:
    """Return the comparisons of a version in the order in which they were recorded last.

    What was not comparable may name no version: it counts. What asked for a cut or a range that holds nothing does not.

    Args:
        lines: The history.
        version: In force.
        batch_definition: Batch fingerprint in force; agreement with another one is left out.
        policy: In force; a run is within it and within the one of its time.
        inputs: Times of what was compared.
    """
    mine = recorded.of_definition(lines, version.result_fingerprint)
    ordered = sorted((one for one in mine if one.version in {version.number, None}), key=lambda one: one.sequence)
    found = (_run(one, batch_definition, policy, inputs or EvidenceInputs()) for one in ordered)
    return tuple(run for run in found if run is not None)


def since(found: tuple[EvidenceRun, ...], moves: Sequence[GateEvent], version: Version) -> tuple[EvidenceRun, ...]:
    """Return the runs that speak after the last move: good ones that no earlier move has used, and every bad one.

    Unused is what was recorded after the last move, at a cut ahead of what was counted, and of all that was compared
    before a way back: the records that led to it are no evidence again. A run that is not within policy stays
    however old it is, unless an advance went by it: it knew of it, and counted a run that stands behind
    it. What a move knew is told by the history's own sequence, not by a clock.
    """
    if not moves:
        return found
    advances = [(move.next_comparison, _read_used_runs(move, version)) for move in moves if move.event == "advanced"]
    used = [run for _, counted in advances for run in counted]
    back = max((move.next_comparison for move in moves if move.event == "rolled_back"), default=-1)
    before = [run for run in found if run.whole and run.begun < back]
    if before:
        used += [max(before, key=lambda run: run.epoch), max(before, key=lambda run: run.end or 0)]

    def speaks(run: EvidenceRun) -> bool:
        if run.within:
            return run.sequence >= moves[-1].next_comparison and all(is_ahead(run, before) for before in used)
        return not any(run.sequence < seen and any(run.epoch <= one.epoch for one in of) for seen, of in advances)

    return tuple(filter(speaks, found))


def _read_used_runs(move: GateEvent, version: Version) -> list[EvidenceRun]:
    """Return what a move counted, if it was one of this version."""
    kept = json.loads(move.evidence)
    return [_parse_run(run) for run in kept.get("counted", [])] if _is_of(kept, version) else []


def _is_of(kept: Mapping[str, Any], version: Version) -> bool:
    return (kept.get("result_fingerprint"), kept.get("stream_version")) == (version.result_fingerprint, version.number)


def _parse_run(kept: Mapping[str, Any]) -> EvidenceRun:
    """Return a run as the history keeps it, for its cut alone."""
    at = datetime.fromisoformat(kept["at"])
    return EvidenceRun(run_id=kept["run_id"], at=at, epoch=kept["epoch"], outcome="", within=True, end=kept.get("end"))


def _run(
    one: RecordedComparison, batch_definition: str | None, policy: Policy | None, inputs: EvidenceInputs
) -> EvidenceRun | None:
    """Return a line as the gate sees it; None if it agreed with a batch side that is no longer the one in force."""
    within = one.exit_code == 0 and one.agrees and _is_within(one.result, policy)
    if within and _ran_with(one.result) not in {None, batch_definition or _ran_with(one.result)}:
        return None
    causes = {name: int(cause["rows"]) for name, cause in one.result.get("causes", {}).items() if cause["rows"]}
    return EvidenceRun(
        run_id=one.run_id,
        at=one.last,
        epoch=one.epoch,
        outcome=name_outcome(one.verdict, within=within),
        within=within,
        windows=int(one.result.get("windows", {}).get("compared", 0)),
        newest_window=_parse_time(one.result.get("windows", {}).get("last")),
        whole=one.whole,
        end=_end(one.result),
        rows_by_cause=tuple(sorted(causes.items())),
        watermark=_parse_time(one.result.get("seal", {}).get("watermark")),
        begun=one.begun,
        sequence=one.sequence,
        accepted_by=tuple(
            (rule["rule"], rule["digest"])
            for rule in one.result.get("accepted", [])
            if rule["state"] == RuleState.IN_FORCE and rule["rows"]
        ),
        exceeded=tuple(
            (rule["rule"], str(rule.get("why")))
            for rule in one.result.get("accepted", [])
            if rule["state"] == RuleState.EXCEEDED
        ),
        inputs=inputs.select(one),
    )


def list_lost_windows(pipeline: Pipeline, found: Sequence[Loss], number: int) -> tuple[LostWindows, ...]:
    """Return the accepted losses that touch windows, as the gate sees them: one for each recorded step.

    Args:
        pipeline: The definition.
        found: Of the version in force and of those before it.
        number: Of the version in force.
    """
    steps: dict[int, list[Loss]] = defaultdict(list)
    for loss in found:
        if loss.windows_to is not None:
            steps[loss.sequence].append(loss)
    return tuple(_make_lost_windows(pipeline, step, number) for step in steps.values())


def _make_lost_windows(pipeline: Pipeline, step: Sequence[Loss], number: int) -> LostWindows:
    end = max(loss.windows_to or 0 for loss in step)
    closed = closing(pipeline.window, pipeline.lateness, select_last_window(pipeline.window, end - 1).end)
    offsets = sum((loss.next or loss.first) - loss.first for loss in step)
    how_many = f"{offsets:,} offsets" if all(loss.next is not None for loss in step) else "an unknown number of offsets"
    text = f"{how_many} of {step[0].topic} were lost, accepted {step[0].at:%Y-%m-%d %H:%M} UTC by {step[0].who}: "
    epoch = step[0].epoch if step[0].stream_version == number else 0
    return LostWindows(epoch=epoch, until=closed, text=text + "windows that they touch read incomplete(lost)")


def _parse_time(said: str | None) -> int | None:
    return None if said is None else parse_micros(said)


def _is_within(result: Mapping[str, Any], policy: Policy | None) -> bool:
    """Return whether a comparison is within a policy, which may have been another one when it was made."""
    said, causes = result.get("policy", {}), result.get("causes", {})
    return policy is None or (
        said.get("late_share", 0.0) <= policy.max_late_share
        and said.get("unexplained", 0) - said.get("accepted", 0) <= policy.max_unexplained
        and causes.get(DIMENSION, {}).get("rows", 0) <= policy.max_dimension_rows
    )


def _ran_with(result: Mapping[str, Any]) -> str | None:
    found: str | None = result.get("seal", {}).get("fingerprints", {}).get("batch_definition")
    return found


def _end(result: Mapping[str, Any]) -> int | None:
    logs = result.get("seal", {}).get("logs", [])
    return sum(offset for log in logs for offset in log["cut"].values()) if logs else None


def by_cause(found: Iterable[EvidenceRun]) -> dict[str, int]:
    """Return the different (window, key) rows of some runs by cause."""
    total: Counter[str] = Counter()
    for run in found:
        total.update(dict(run.rows_by_cause))
    return dict(total)


def _list_hazards(
    settings: Settings,
    pipeline: Pipeline,
    records: Sequence[EpochRecord],
    lines: Sequence[RecordedComparison],
    now: datetime,
) -> Iterator[SeenHazard]:
    yield from hazards.find_hazards(records, pipeline.policy, now)
    mine = recorded.of_definition(lines, result_fingerprint(pipeline))
    replay = hazards.find_replay(versions.read_events(settings, pipeline.name), mine, now)
    if replay is not None:
        yield replay


def _find_audit_refusal(settings: Settings, pipeline: Pipeline) -> str | None:
    """Return why a sample could not speak for the pipeline in KAPPA; only one step before it: it reads all rows."""
    if current_stage(settings, pipeline) is not Stage.SHADOW:
        return NOT_LOOKED
    return population.find_refusal(settings, pipeline)


def _find_contract(contract: Sequence[Expect], batch: Sequence[BatchRun]) -> ContractCheck | None:
    """Find how the newest published batch run fared by the contract in force; one that broke it published nothing.

    A run that computed no row was held to no expectation, so the one before it counts. An expectation that was added
    or changed since then was evaluated by no run.
    """
    published = [run for run in batch if run.batch_version is not None]
    if not published:
        return None
    last = next((run for run in reversed(published) if run.contract), published[-1])
    held = {result.expectation: result.success for result in last.contract}
    judged = [expect for expect in contract if expect.text in held]
    failed = tuple(expect.text for expect in judged if not held[expect.text] and expect.severity == "critical")
    dropped = len(set(held) - {expect.text for expect in contract})
    return ContractCheck(run_id=last.run_id, judged=len(judged), failed=failed, dropped=dropped)


def _replay(
    settings: Settings, pipeline: Pipeline, records: Sequence[EpochRecord], now: datetime
) -> Replayability | None:
    try:
        client = LogClient(settings)
        log = log_of(pipeline)
        configs = [client.config(topic) for topic in topics_of(log)]
        earliest, latest = client.earliest(log), client.latest(log)
    except LogError:
        return None
    unread = sum(latest[p] - earliest.get(p, 0) for p in latest)
    return Replayability(
        retention=find_shortest(map(parse_retention, configs)),
        needed=estimate_replay_time(records, unread),
        is_bounded=any(map(is_limited_by_size, configs)),
        held_since=find_retained_since(records, earliest, now),
    )


def record(
    decision: GateDecision,
    evidence: GateEvidence,
    *,
    approved: str | None = None,
    because: Mapping[str, Any] | None = None,
    audit: str | None = None,
) -> str:
    """Return what the gate's history keeps of a decision: the conditions, the runs that counted, and a hash of both.

    Args:
        decision: That was made.
        evidence: That it was made on.
        approved: Digest of the proposal that a person said yes to.
        because: What a way back was made for, of an audit.
        audit: What the policy asked the samples in KAPPA for.
    """
    kept = {
        "conditions": [asdict(condition) for condition in decision.conditions],
        "counted": [
            {"run_id": run.run_id, "epoch": run.epoch, "end": run.end, "at": run.at.isoformat()}
            for run in decision.counted
        ],
        "compared_now": None if evidence.present is None else evidence.present.run.run_id,
        "result_fingerprint": evidence.result_fingerprint,
        "stream_version": evidence.stream_version,
        "approved": approved,
        **({} if audit is None else {"audit": audit}),
        **({} if because is None else {"because": dict(because)}),
    }
    return json.dumps(kept | {"hash": digest(kept)}, sort_keys=True)


def digest(kept: Mapping[str, Any]) -> str:
    """Return the sha256 of evidence without its own hash, as canonical JSON."""
    plain = {name: value for name, value in kept.items() if name != "hash"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
