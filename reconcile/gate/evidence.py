"""Evidence for and against a move, read from the lake and the log."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Self

from cutover import acceptance_files
from cutover.definition.compile.fingerprint import batch_fingerprint, job_fingerprints, result_fingerprint
from cutover.definition.model.pipeline import Expect, Pipeline
from cutover.definition.model.policy import Policy, Stage
from cutover.definition.windows.window_fn import select_last_window
from cutover.errors import LakeError, LogError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control import losses, versions
from cutover.lake.control.served import current_stage, list_moves
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import high_water, table_weights
from cutover.lake.integrity.foreign_commits import Kind
from cutover.lake.journal_rows import GateEvent, Loss
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import name_log, split_topics
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.audit import window_sample
from cutover.reconcile.gate import hazards
from cutover.reconcile.gate.gate_values import (
    NOT_EVALUATED,
    ContractCheck,
    EvidenceRun,
    GateDecision,
    GateEvidence,
    LostWindows,
    RecordedHazard,
    Replayability,
    is_newer_cut,
)
from cutover.reconcile.journal_rows import list_valid_self_tests
from cutover.reconcile.result.finding import DIMENSION, RuleState
from cutover.reconcile.result.text import count_noun
from cutover.reconcile.verdict import records as recorded
from cutover.reconcile.verdict.decision import name_outcome
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.reconcile.watch.collector import (
    estimate_replay_time,
    find_retained_since,
    find_shortest,
    is_limited_by_size,
    parse_retention,
)
from cutover.records.watermark import compute_closing_watermark
from cutover.timestamps import parse_micros


def read_evidence(lake: PipelineLake, now: datetime) -> GateEvidence:
    """Read the evidence for a move under the current definition.

    Args:
        lake: Pipeline that may be moved.
        now: By the clock of this host, for the ages of recorded evidence.

    Raises:
        LakeError: A table of the lake cannot be read. If the log does not respond, `replay` is None.
    """
    settings, pipeline = lake.settings, lake.pipeline
    version = versions.find_current_version(lake)
    if version is None:
        unmeasured = Replayability(retention=None, replay_time=None)
        return GateEvidence(result_fingerprint=result_fingerprint(pipeline), replay=unmeasured)
    comparisons = recorded.read_comparisons(settings, pipeline.name)
    moves = list_moves(settings, pipeline.name)
    records = EpochLog(version.uri).records() if delta.exists(version.uri) else []
    batch = batch_runs.read_effective_runs(lake)
    runs = list_runs(
        comparisons,
        version,
        batch_definition=batch_fingerprint(pipeline),
        jobs=job_fingerprints(pipeline),
        policy=pipeline.policy,
        inputs=EvidenceInputs.of(records, batch),
    )
    self_tests = list_valid_self_tests(lake)
    return GateEvidence(
        runs=select_runs_after_last_move(runs, moves, version),
        replay=_read_replayability(lake, records, now),
        losses=list_lost_windows(pipeline, losses.list_up_to(settings, version), version.number),
        foreign=tuple(list_table_problems(lake, version)),
        rules=acceptance_files.load_acceptance_rules(lake),
        self_test=self_tests[-1] if self_tests else None,
        earlier_self_tests=tuple(datetime.fromisoformat(test.at) for test in self_tests[:-1]),
        hazards=tuple(_list_hazards(lake, records, comparisons, now)),
        settings_since=hazards.find_change_of_settings(records),
        contract=_check_contract(pipeline.contract, batch),
        expectations=len(pipeline.contract),
        audit_refusal=_find_audit_refusal(lake),
        result_fingerprint=version.result_fingerprint,
        stream_version=version.number,
    )


def list_table_problems(lake: PipelineLake, version: Version) -> Iterator[str]:
    """Yield a sentence for each change by another writer, and one if the high-water note cannot be read."""
    for change, _ in table_weights.list_table_changes(lake):
        if change.kind is not Kind.HARMLESS:
            yield change.sentence
    try:
        high_water.read_note(version)
    except LakeError as error:
        yield str(error).splitlines()[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceInputs:
    """Times of the inputs of comparisons: epochs of the current version, and batch runs."""

    epochs: Mapping[int, datetime] = field(default_factory=dict)  # epoch -> commit time
    batch: Mapping[str, datetime] = field(default_factory=dict)  # run id -> end of the run

    @classmethod
    def of(cls, records: Sequence[EpochRecord], batch: Sequence[BatchRun]) -> Self:
        """Collect the times that the drivers and the batch hosts recorded."""
        return cls(
            epochs={r.epoch: datetime.fromisoformat(r.processing_time) for r in records if r.processing_time},
            batch={run.run_id: datetime.fromisoformat(run.finished) for run in batch},
        )

    def select(self, comparison: RecordedComparison) -> tuple[datetime, ...]:
        """Select the known times of the inputs of a comparison of the current version."""
        epoch = self.epochs.get(comparison.epoch) if comparison.has_cut and comparison.version is not None else None
        batch = self.batch.get(str(comparison.result.get("tables", {}).get("batch_run")))
        return tuple(at for at in (epoch, batch) if at is not None)


def list_runs(
    comparisons: Sequence[RecordedComparison],
    version: Version,
    *,
    batch_definition: str | None = None,
    jobs: Mapping[str, str] | None = None,
    policy: Policy | None = None,
    inputs: EvidenceInputs | None = None,
) -> tuple[EvidenceRun, ...]:
    """List the comparisons of a version in the order in which they were last recorded.

    A comparison that was not comparable may lack a version; it is included. Requests for a cut or a range without data
    are not.

    Args:
        comparisons: The history.
        version: Current version.
        batch_definition: Current batch fingerprint; agreement with a batch side of another one is excluded.
        jobs: Current fingerprints of the team's own jobs by side; agreement with other tables, or with tables of which
            too few rows could be judged, is excluded. None: the jobs are not considered.
        policy: Current policy; a run must be within it and within the policy at the time of the run.
        inputs: Times of the compared inputs.
    """
    of_definition = recorded.of_definition(comparisons, version.result_fingerprint)
    of_version = [comparison for comparison in of_definition if comparison.version in {version.number, None}]
    runs = (
        (comparison, _make_run(comparison, policy, inputs or EvidenceInputs()))
        for comparison in sorted(of_version, key=lambda comparison: comparison.sequence)
    )
    return tuple(
        run
        for comparison, run in runs
        if not (run.is_within_policy and _agrees_with_others(comparison.result, batch_definition, jobs, policy))
    )


def _agrees_with_others(
    result: Mapping[str, Any], batch_definition: str | None, jobs: Mapping[str, str] | None, policy: Policy | None
) -> bool:
    """Return whether a comparison agreed with another batch side than the current one, or not with all current jobs.

    A job's table of which fewer rows could be judged than the policy asks for is no evidence that the job does what the
    definition says.
    """
    compared_definition = result.get("seal", {}).get("fingerprints", {}).get("batch_definition")
    if batch_definition and compared_definition not in {None, batch_definition}:
        return True
    min_share = (policy or Policy()).min_judged_share
    compared_jobs = {
        job["side"]: job["fingerprint"]
        for job in result.get("jobs", [])
        if not job["not_judged"] or job["rows"] / (job["rows"] + job["not_judged"]) >= min_share
    }
    return jobs is not None and compared_jobs != jobs


def select_runs_after_last_move(
    runs: tuple[EvidenceRun, ...], moves: Sequence[GateEvent], version: Version
) -> tuple[EvidenceRun, ...]:
    """Select the runs that are evidence after the last move: unused ones within policy, and all beyond policy.

    A run within policy is unused if it was recorded after the last move, at a cut that is ahead of every run counted
    by an earlier advance and of every cut compared before the last rollback: the records that led to the rollback are
    not evidence again. A run beyond policy remains evidence at any age, unless an advance superseded it: the run was
    recorded before that advance, which counted a run at the same or a newer cut. The order of runs and moves is the
    sequence of the history, not a clock.
    """
    if not moves:
        return runs
    advances = [(move.next_comparison, _read_used_runs(move, version)) for move in moves if move.event == "advanced"]
    used = [run for _, used_runs in advances for run in used_runs]
    rollback = max((move.next_comparison for move in moves if move.event == "rolled_back"), default=-1)
    earlier = [run for run in runs if run.covers_all_windows and run.first_sequence < rollback]
    if earlier:
        used += [max(earlier, key=lambda run: run.epoch), max(earlier, key=lambda run: run.end or 0)]

    def is_evidence(run: EvidenceRun) -> bool:
        if run.is_within_policy:
            return run.sequence >= moves[-1].next_comparison and all(is_newer_cut(run, used_run) for used_run in used)
        return not any(
            run.sequence < next_comparison and any(run.epoch <= used_run.epoch for used_run in used_runs)
            for next_comparison, used_runs in advances
        )

    return tuple(filter(is_evidence, runs))


def _read_used_runs(move: GateEvent, version: Version) -> list[EvidenceRun]:
    """Parse the runs that a move of this version counted; none for a move of another version."""
    content = json.loads(move.evidence)
    fingerprint, number = content.get("result_fingerprint"), content.get("stream_version")
    if (fingerprint, number) != (version.result_fingerprint, version.number):
        return []
    return [_parse_run(run) for run in content.get("counted", [])]


def _parse_run(content: Mapping[str, Any]) -> EvidenceRun:
    """Parse a run from the history of the gate, which records only its cut."""
    return EvidenceRun(
        run_id=content["run_id"],
        at=datetime.fromisoformat(content["at"]),
        epoch=content["epoch"],
        outcome="",
        is_within_policy=True,
        end=content.get("end"),
    )


def _make_run(comparison: RecordedComparison, policy: Policy | None, inputs: EvidenceInputs) -> EvidenceRun:
    """Reduce a comparison to what the gate needs."""
    result = comparison.result
    is_within_policy = comparison.exit_code == 0 and comparison.has_no_open_difference and _is_within(result, policy)
    windows = result.get("windows", {})
    causes = {name: int(cause["rows"]) for name, cause in result.get("causes", {}).items() if cause["rows"]}
    rules = result.get("accepted", [])
    return EvidenceRun(
        run_id=comparison.run_id,
        at=comparison.last_recorded,
        epoch=comparison.epoch,
        outcome=name_outcome(comparison.verdict, within=is_within_policy),
        is_within_policy=is_within_policy,
        windows=int(windows.get("compared", 0)),
        newest_window=_parse_time(windows.get("last")),
        covers_all_windows=comparison.covers_all_windows,
        end=_sum_cut_offsets(result),
        rows_by_cause=tuple(sorted(causes.items())),
        watermark=_parse_time(result.get("seal", {}).get("watermark")),
        first_sequence=comparison.first_sequence,
        sequence=comparison.sequence,
        accepted_by=tuple(
            (rule["rule"], rule["digest"]) for rule in rules if rule["state"] == RuleState.IN_FORCE and rule["rows"]
        ),
        exceeded=tuple((rule["rule"], str(rule.get("why"))) for rule in rules if rule["state"] == RuleState.EXCEEDED),
        inputs=inputs.select(comparison),
    )


def list_lost_windows(
    pipeline: Pipeline, accepted_losses: Sequence[Loss], current_version: int
) -> tuple[LostWindows, ...]:
    """List the windows affected by accepted losses, one entry per recorded acceptance.

    Args:
        pipeline: The definition.
        accepted_losses: Of the current version and of earlier ones.
        current_version: Its number.
    """
    losses_by_sequence: dict[int, list[Loss]] = defaultdict(list)
    for loss in accepted_losses:
        if loss.windows_to is not None:
            losses_by_sequence[loss.sequence].append(loss)
    return tuple(_make_lost_windows(pipeline, step, current_version) for step in losses_by_sequence.values())


def _make_lost_windows(pipeline: Pipeline, step: Sequence[Loss], current_version: int) -> LostWindows:
    end = max(loss.windows_to or 0 for loss in step)
    closed_at = compute_closing_watermark(
        pipeline.window, pipeline.lateness, select_last_window(pipeline.window, end - 1).end
    )
    offsets = sum((loss.next or loss.first) - loss.first for loss in step)
    is_counted = all(loss.next is not None for loss in step)
    amount = count_noun(offsets, "offset") if is_counted else "an unknown number of offsets"
    text = f"{amount} of {step[0].topic} were lost, accepted {step[0].at:%Y-%m-%d %H:%M} UTC by {step[0].who}: "
    text += "windows that they touch read incomplete(lost)"
    epoch = step[0].epoch if step[0].stream_version == current_version else 0
    return LostWindows(epoch=epoch, closed_at=closed_at, text=text)


def _parse_time(text: str | None) -> int | None:
    return None if text is None else parse_micros(text)


def _is_within(result: Mapping[str, Any], policy: Policy | None) -> bool:
    """Return whether a result is within the current policy; its own policy may have been another one."""
    shares, causes = result.get("policy", {}), result.get("causes", {})
    return policy is None or (
        shares.get("late_share", 0.0) <= policy.max_late_share
        and shares.get("unexplained", 0) - shares.get("accepted", 0) <= policy.max_unexplained
        and causes.get(DIMENSION, {}).get("rows", 0) <= policy.max_dimension_rows
    )


def _sum_cut_offsets(result: Mapping[str, Any]) -> int | None:
    logs = result.get("seal", {}).get("logs", [])
    return sum(offset for log in logs for offset in log["cut"].values()) if logs else None


def count_rows_by_cause(runs: Iterable[EvidenceRun]) -> dict[str, int]:
    """Count the differing (window, key) rows of runs by cause."""
    total: Counter[str] = Counter()
    for run in runs:
        total.update(dict(run.rows_by_cause))
    return dict(total)


def _list_hazards(
    lake: PipelineLake,
    records: Sequence[EpochRecord],
    comparisons: Sequence[RecordedComparison],
    now: datetime,
) -> Iterator[RecordedHazard]:
    yield from hazards.find_hazards(records, lake.pipeline.policy, now)
    current = recorded.of_definition(comparisons, result_fingerprint(lake.pipeline))
    replay = hazards.find_replay(versions.read_version_events(lake.settings, lake.name), current, now)
    if replay is not None:
        yield replay


def _find_audit_refusal(lake: PipelineLake) -> str | None:
    """Find why samples could not audit the pipeline in KAPPA; evaluated in SHADOW only, since it reads all rows."""
    if current_stage(lake) is not Stage.SHADOW:
        return NOT_EVALUATED
    return window_sample.find_audit_problem(lake)


def _check_contract(contract: Sequence[Expect], batch: Sequence[BatchRun]) -> ContractCheck | None:
    """Compare the results of the latest published batch run with the current contract; None: none was published.

    A run that violates its contract publishes nothing. A run that computed no rows evaluated no expectation, so the
    run before it is used. No run has evaluated an expectation that was added or changed after it.
    """
    published = [run for run in batch if run.batch_version is not None]
    if not published:
        return None
    latest = next((run for run in reversed(published) if run.contract), published[-1])
    success = {result.expectation: result.success for result in latest.contract}
    evaluated = [expect for expect in contract if expect.text in success]
    failed = tuple(expect.text for expect in evaluated if not success[expect.text] and expect.severity == "critical")
    dropped = len(set(success) - {expect.text for expect in contract})
    return ContractCheck(run_id=latest.run_id, evaluated=len(evaluated), failed=failed, dropped=dropped)


def _read_replayability(lake: PipelineLake, records: Sequence[EpochRecord], now: datetime) -> Replayability | None:
    try:
        client = LogClient(lake.settings)
        log = name_log(lake.pipeline)
        configs = [client.config(topic) for topic in split_topics(log)]
        earliest, latest = client.earliest(log), client.latest(log)
    except LogError:
        return None
    records_in_log = sum(latest[p] - earliest.get(p, 0) for p in latest)
    return Replayability(
        retention=find_shortest(map(parse_retention, configs)),
        replay_time=estimate_replay_time(records, records_in_log),
        is_bounded=any(map(is_limited_by_size, configs)),
        retained_since=find_retained_since(records, earliest, now),
    )


def encode_evidence(
    decision: GateDecision,
    evidence: GateEvidence,
    *,
    approved: str | None = None,
    because: Mapping[str, Any] | None = None,
    audit: str | None = None,
) -> str:
    """Encode a decision for the history of the gate: the conditions, the eligible runs, and a hash of both.

    Args:
        decision: On the move.
        evidence: On which the decision is based.
        approved: Digest of the proposal that a person approved.
        because: Audit that caused a rollback.
        audit: What the policy requires of the samples in KAPPA.
    """
    content = {
        "conditions": [asdict(condition) for condition in decision.conditions],
        "counted": [
            {"run_id": run.run_id, "epoch": run.epoch, "end": run.end, "at": run.at.isoformat()}
            for run in decision.eligible_runs
        ],
        "compared_now": None if evidence.present is None else evidence.present.run.run_id,
        "result_fingerprint": evidence.result_fingerprint,
        "stream_version": evidence.stream_version,
        "approved": approved,
        **({} if audit is None else {"audit": audit}),
        **({} if because is None else {"because": dict(because)}),
    }
    return json.dumps(content | {"hash": compute_evidence_digest(content)}, sort_keys=True)


def compute_evidence_digest(content: Mapping[str, Any]) -> str:
    """Compute the sha256 of evidence without its own hash, as canonical JSON."""
    hashed = {name: value for name, value in content.items() if name != "hash"}
    return hashlib.sha256(json.dumps(hashed, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
