"""Evidence read from the lake and the log: the latest contract check, foreign writes, and the duration of a replay."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Expect
from cutover.definition.model.policy import Stage
from cutover.lake.batch_runs import ExpectationResult
from cutover.lake.integrity.foreign_commits import Kind
from cutover.lake.journal_rows import VersionEvent
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.gate import evidence
from cutover.reconcile.gate.decide import ContractCheck, GateEvidence, Replayability
from cutover.reconcile.gate.gate_values import NOT_EVALUATED
from cutover.reconcile.verdict.records import RecordedComparison, fold_lines
from cutover.settings import Settings
from tests.support.history.journal_rows import make_row
from tests.unit.gate.test_evidence import AT, FLIGHTS, VERSION, epoch, row

HOUR = timedelta(hours=1)


@dataclass
class Lake:
    """Answers of a fake lake and log, which tests modify."""

    stage: Stage = Stage.LAMBDA
    changes: list[tuple[Any, str]] = field(default_factory=list)
    batch: list[Any] = field(default_factory=list)
    config: dict[str, dict[str, str]] = field(default_factory=lambda: {"flights": {"retention.ms": "3600000"}})
    earliest: dict[int, int] = field(default_factory=dict)
    latest: dict[int, int] = field(default_factory=dict)
    versions: list[VersionEvent] = field(default_factory=list)
    version: Any = VERSION
    lines: tuple[RecordedComparison, ...] = ()


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Lake:
    lake_state = Lake()
    log = SimpleNamespace(
        config=lambda topic: lake_state.config[topic],
        earliest=lambda _: lake_state.earliest,
        latest=lambda _: lake_state.latest,
    )
    records = [replace(epoch(100, 2.0), end={0: 100}, processing_time=AT.isoformat())]
    answers: dict[str, Callable[..., Any]] = {
        "versions.find_current_version": lambda *_: lake_state.version,
        "recorded.read_comparisons": lambda *_: lake_state.lines,
        "list_moves": lambda *_: [],
        "delta.exists": lambda _: True,
        "EpochLog": lambda _: SimpleNamespace(records=lambda: records),
        "losses.list_up_to": lambda *_: [],
        "table_weights.list_table_changes": lambda *_: iter(lake_state.changes),
        "high_water.read_note": lambda *_: None,
        "acceptance_files.load_acceptance_rules": lambda *_: GateEvidence().rules,
        "list_valid_self_tests": lambda *_: (),
        "versions.read_version_events": lambda *_: lake_state.versions,
        "batch_runs.read_effective_runs": lambda *_: lake_state.batch,
        "current_stage": lambda *_: lake_state.stage,
        "window_sample.find_audit_problem": lambda *_: "too few windows",
        "LogClient": lambda _: log,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(f"{evidence.__name__}.{name}", answer)
    return lake_state


def read(*contract: Expect) -> GateEvidence:
    return evidence.read_evidence(PipelineLake(Settings(), replace(FLIGHTS, contract=contract)), AT + HOUR)


def expect(column: str, **changes: Any) -> Expect:
    return Expect(type="expect_column_values_to_not_be_null", arguments={"column": column}, **changes)


def evaluated(expectation: Expect, *, success: bool) -> ExpectationResult:
    return ExpectationResult(expectation=expectation.text, success=success, severity=expectation.severity, observed="3")


def published(run_id: str, version: int | None, *contract: ExpectationResult) -> Any:
    return SimpleNamespace(run_id=run_id, batch_version=version, contract=contract, finished=AT.isoformat())


def test_a_pipeline_without_a_version_has_no_evidence(lake: Lake) -> None:
    lake.version = None

    nothing = Replayability(retention=None, replay_time=None)
    assert read() == GateEvidence(result_fingerprint=result_fingerprint(FLIGHTS), replay=nothing)


def test_evidence_belongs_to_the_current_version(lake: Lake) -> None:
    assert lake.version is VERSION
    assert (read().result_fingerprint, read().stream_version) == ("aa", 1)


def test_contract_is_evaluated_by_the_latest_published_run(lake: Lake) -> None:
    broken, warned, fulfilled = expect("a"), expect("b", severity="warning"), expect("c")
    results = [evaluated(expectation, success=expectation is fulfilled) for expectation in (broken, warned, fulfilled)]
    lake.batch = [
        published("first", 1),
        published("second", 2, *results),
        published("refused", None, evaluated(fulfilled, success=False)),
    ]

    assert read(broken, warned, fulfilled).contract == ContractCheck(
        run_id="second", evaluated=3, failed=(broken.text,)
    )


def test_a_changed_expectation_was_evaluated_by_no_run(lake: Lake) -> None:
    was, warned = expect("a"), expect("b", severity="warning")
    lake.batch = [published("first", 1, evaluated(was, success=True), evaluated(warned, success=False))]

    gate_evidence = read(expect("another"), replace(warned, severity="critical"))

    assert (gate_evidence.contract, gate_evidence.expectations) == (
        ContractCheck(run_id="first", evaluated=1, failed=(warned.text,), dropped=1),
        2,
    )


def test_expectations_that_the_contract_no_longer_has_are_counted(lake: Lake) -> None:
    lake.batch = [published("first", 1, evaluated(expect("a"), success=True), evaluated(expect("b"), success=True))]

    assert (read(expect("a")).contract, read().contract) == (
        ContractCheck(run_id="first", evaluated=1, failed=(), dropped=1),
        ContractCheck(run_id="first", evaluated=0, failed=(), dropped=2),
    )


def test_a_contract_without_a_published_result_is_unknown(lake: Lake) -> None:
    lake.batch = [published("refused", None)]

    assert read().contract is None


def test_only_changes_of_rows_count_against_a_move(lake: Lake) -> None:
    lake.changes = [
        (SimpleNamespace(kind=kind, sentence=str(kind)), "mend")
        for kind in (Kind.FOREIGN, Kind.HARMLESS, Kind.UNFINISHED)
    ]

    assert read().foreign == ("foreign", "unfinished")


def test_a_parallel_replay_is_a_hazard_once_it_agreed(lake: Lake) -> None:
    assert read().hazards == ()

    fingerprint = result_fingerprint(FLIGHTS)
    lake.versions = [make_row(VersionEvent, result_fingerprint=fingerprint, stream_version=2, parallel=True)]
    lake.lines = fold_lines([row(4, result_fingerprint=fingerprint, stream_version=2)])

    assert [(hazard.kind, hazard.text) for hazard in read().hazards] == [
        ("replay", "stream-2 was replayed and is within policy")
    ]


@pytest.mark.parametrize(
    ("stage", "refusal"),
    [(Stage.LAMBDA, NOT_EVALUATED), (Stage.SHADOW, "too few windows"), (Stage.KAPPA, NOT_EVALUATED)],
)
def test_sampling_is_evaluated_only_one_stage_before_kappa(lake: Lake, stage: Stage, refusal: str) -> None:
    lake.stage = stage

    assert read().audit_refusal == refusal


def test_a_replay_reads_the_whole_log_at_the_pace_of_the_epochs(lake: Lake) -> None:
    lake.earliest, lake.latest = {0: 50}, {0: 100, 1: 30}

    replay = read().replay

    assert replay is not None
    assert (replay.retention, replay.replay_time) == (HOUR, timedelta(seconds=(50 + 30) * 2.0 / 100))


def test_the_shorter_retention_and_any_size_limit_of_two_topics_count(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{evidence.__name__}.split_topics", lambda _: ("left", "right"))
    lake.config = {"left": {"retention.ms": "7200000", "retention.bytes": "5"}, "right": {"retention.ms": "3600000"}}

    replay = read().replay

    assert replay is not None
    assert (replay.retention, replay.is_bounded) == (HOUR, True)
