"""What is taken from the lake and the log as evidence: the newest contract, rows of others, how long a replay takes."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Expect
from cutover.lake.batch_runs import ExpectationResult
from cutover.lake.control.stages import Stage
from cutover.lake.integrity.foreign_commits import Kind
from cutover.lake.journal_rows import VersionEvent
from cutover.reconcile.gate import evidence
from cutover.reconcile.gate.decide import ContractCheck, GateEvidence, Replayability
from cutover.reconcile.gate.gate_values import NOT_EVALUATED
from cutover.reconcile.verdict.records import RecordedComparison, lines
from cutover.settings import Settings
from tests.support.history.journal_rows import make_row
from tests.unit.gate.test_evidence import AT, FLIGHTS, VERSION, epoch, row

HOUR = timedelta(hours=1)


@dataclass
class Lake:
    """What a lake and a log answer; tests change it."""

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
    made = Lake()
    log = SimpleNamespace(
        config=lambda topic: made.config[topic], earliest=lambda _: made.earliest, latest=lambda _: made.latest
    )
    records = [replace(epoch(100, 2.0), end={0: 100}, processing_time=AT.isoformat())]
    answers: dict[str, Callable[..., Any]] = {
        "versions.current": lambda *_: made.version,
        "recorded.read": lambda *_: made.lines,
        "list_moves": lambda *_: [],
        "delta.exists": lambda _: True,
        "EpochLog": lambda _: SimpleNamespace(records=lambda: records),
        "losses.up_to": lambda *_: [],
        "table_weights.find_changes": lambda *_: iter(made.changes),
        "high_water.read_note": lambda *_: None,
        "acceptance_files.load": lambda *_: GateEvidence().rules,
        "selftests.list_valid": lambda *_: (),
        "versions.read_events": lambda *_: made.versions,
        "batch_runs.runs": lambda *_: made.batch,
        "current_stage": lambda *_: made.stage,
        "population.find_refusal": lambda *_: "too few windows",
        "LogClient": lambda _: log,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(f"{evidence.__name__}.{name}", answer)
    return made


def read(*contract: Expect) -> GateEvidence:
    return evidence.read(Settings(), replace(FLIGHTS, contract=contract), AT + HOUR)


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


def test_evidence_is_of_the_version_in_force(lake: Lake) -> None:
    assert lake.version is VERSION
    assert (read().result_fingerprint, read().stream_version) == ("aa", 1)


def test_the_newest_run_that_published_speaks_for_the_contract(lake: Lake) -> None:
    broken, warned, kept = expect("a"), expect("b", severity="warning"), expect("c")
    results = [evaluated(one, success=one is kept) for one in (broken, warned, kept)]
    lake.batch = [
        published("first", 1),
        published("second", 2, *results),
        published("refused", None, evaluated(kept, success=False)),
    ]

    assert read(broken, warned, kept).contract == ContractCheck(run_id="second", evaluated=3, failed=(broken.text,))


def test_an_expectation_that_was_changed_since_was_evaluated_by_no_run(lake: Lake) -> None:
    was, warned = expect("a"), expect("b", severity="warning")
    lake.batch = [published("first", 1, evaluated(was, success=True), evaluated(warned, success=False))]

    found = read(expect("another"), replace(warned, severity="critical"))

    assert (found.contract, found.expectations) == (
        ContractCheck(run_id="first", evaluated=1, failed=(warned.text,), dropped=1),
        2,
    )


def test_expectations_that_the_contract_no_longer_has_are_counted(lake: Lake) -> None:
    lake.batch = [published("first", 1, evaluated(expect("a"), success=True), evaluated(expect("b"), success=True))]

    assert (read(expect("a")).contract, read().contract) == (
        ContractCheck(run_id="first", evaluated=1, failed=(), dropped=1),
        ContractCheck(run_id="first", evaluated=0, failed=(), dropped=2),
    )


def test_a_contract_that_no_published_result_was_held_to_is_not_known(lake: Lake) -> None:
    lake.batch = [published("refused", None)]

    assert read().contract is None


def test_only_changes_of_rows_speak_against_a_move(lake: Lake) -> None:
    lake.changes = [
        (SimpleNamespace(kind=kind, sentence=str(kind)), "mend")
        for kind in (Kind.FOREIGN, Kind.HARMLESS, Kind.UNFINISHED)
    ]

    assert read().foreign == ("foreign", "unfinished")


def test_a_replay_beside_the_stream_is_a_hazard_once_it_agreed(lake: Lake) -> None:
    assert read().hazards == ()

    mine = result_fingerprint(FLIGHTS)
    lake.versions = [make_row(VersionEvent, result_fingerprint=mine, stream_version=2, parallel=True)]
    lake.lines = lines([row(4, result_fingerprint=mine, stream_version=2)])

    assert [(hazard.kind, hazard.text) for hazard in read().hazards] == [("replay", "stream-2 was replayed and agreed")]


@pytest.mark.parametrize(
    ("stage", "said"),
    [(Stage.LAMBDA, NOT_EVALUATED), (Stage.SHADOW, "too few windows"), (Stage.KAPPA, NOT_EVALUATED)],
)
def test_windows_are_looked_at_one_step_before_kappa_alone(lake: Lake, stage: Stage, said: str) -> None:
    lake.stage = stage

    assert read().audit_refusal == said


def test_a_replay_reads_all_that_the_log_holds_at_the_pace_of_the_epochs(lake: Lake) -> None:
    lake.earliest, lake.latest = {0: 50}, {0: 100, 1: 30}

    replay = read().replay

    assert replay is not None
    assert (replay.retention, replay.replay_time) == (HOUR, timedelta(seconds=(50 + 30) * 2.0 / 100))


def test_of_two_topics_the_one_that_is_kept_shorter_and_any_bound_counts(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{evidence.__name__}.topics_of", lambda _: ("left", "right"))
    lake.config = {"left": {"retention.ms": "7200000", "retention.bytes": "5"}, "right": {"retention.ms": "3600000"}}

    replay = read().replay

    assert replay is not None
    assert (replay.retention, replay.is_bounded) == (HOUR, True)
