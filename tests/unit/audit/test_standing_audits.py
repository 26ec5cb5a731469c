"""Current audit finding, conclusive audits, and the exit code of each audit."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Finding, Seal, Verdict
from cutover.reconcile.result.report import ComparisonOutcome
from cutover.reconcile.verdict import history
from cutover.reconcile.verdict.history import AuditState, WindowAudit
from cutover.settings import Settings
from tests.support.history.audits import make_audit
from tests.support.history.watch_facts import PIPELINE

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
AGREES, REGRESSION, SILENT = AuditState.AGREES, AuditState.REGRESSION, AuditState.NOT_COMPARABLE


def audit(state: AuditState, hour: int = 12, **changes: Any) -> WindowAudit:
    return make_audit(PIPELINE.name, state=state, at=NOON.replace(hour=hour).isoformat(), **changes)


def record(settings: Settings, outcome: ComparisonOutcome, at: datetime) -> None:
    fingerprint = result_fingerprint(PIPELINE)
    entry = history.find_entry(settings, outcome, run_id="r", fingerprint=fingerprint, version=None, at=at)
    history.record_comparison(settings, outcome, entry, None)


@pytest.mark.parametrize(("state", "code"), [(AGREES, 0), (AuditState.NOTHING_NEW, 0), (REGRESSION, 1), (SILENT, 2)])
def test_an_audit_exits_with_one_if_wrong_and_two_if_inconclusive(state: AuditState, code: int) -> None:
    assert audit(state).exit_code == code


def test_conclusive_audits_are_those_of_the_version_that_could_compare() -> None:
    audits = [audit(state, stream_version=number) for number in (0, 1, None) for state in (AGREES, SILENT, REGRESSION)]

    for number in (0, 1, None):
        assert [
            (audit_finding.stream_version, audit_finding.state) for audit_finding in history.list_judged(audits, number)
        ] == [
            (number, AGREES),
            (number, REGRESSION),
        ]


def test_an_audit_is_stored_unchanged(settings: Settings) -> None:
    finding = audit(REGRESSION, unexplained=2, wrong=(3, 5), causes={"late": 4}, epoch=7)

    lake = PipelineLake(settings, PIPELINE)
    assert history.record_audit(lake, finding) == 0
    assert history.list_audits(lake) == (replace(finding, seen=0),)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param([], (), id="none"),
        pytest.param([REGRESSION, SILENT], (0,), id="could not compare since"),
        pytest.param([REGRESSION, AGREES], (), id="agrees since"),
        pytest.param([REGRESSION, REGRESSION], (1,), id="found again"),
    ],
)
@pytest.mark.parametrize("version", [0, 1], ids=["one version", "the last of another version"])
def test_windows_stay_wrong_until_an_audit_of_any_version_agrees(
    states: list[AuditState], expected: tuple[int, ...], version: int
) -> None:
    audits = [
        audit(state, wrong=(number,) if state is REGRESSION else (), stream_version=version * number)
        for number, state in enumerate(states)
    ]

    assert history.find_wrong_windows(audits) == expected


def test_an_audit_that_compared_nothing_names_no_cut_no_row_and_no_cause() -> None:
    finding = audit(SILENT)

    assert (finding.epoch, finding.unexplained, finding.wrong, finding.examples, finding.causes) == (-1, 0, (), (), {})


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param([], None, id="none"),
        pytest.param([SILENT], None, id="none that says something"),
        pytest.param([REGRESSION], 0, id="found"),
        pytest.param([AGREES, REGRESSION], 1, id="found last"),
        pytest.param([REGRESSION, AGREES], None, id="agrees since"),
        pytest.param([REGRESSION, SILENT], 0, id="could not compare since"),
        pytest.param([REGRESSION, REGRESSION], 1, id="found again"),
    ],
)
def test_a_finding_is_current_until_an_audit_agrees(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, states: list[AuditState], expected: int | None
) -> None:
    audits = tuple(audit(state, hour) for hour, state in enumerate(states))
    monkeypatch.setattr(history, "list_audits", lambda *_: audits)

    assert history.find_open_regression(PipelineLake(settings, PIPELINE)) == (
        None if expected is None else audits[expected]
    )


@pytest.mark.parametrize(
    ("is_recorded_first", "changes", "stands"),
    [
        pytest.param(True, {}, False, id="agrees behind it"),
        pytest.param(False, {}, True, id="agreed before it"),
        pytest.param(True, {"exit_code": 1, "verdict": Verdict.DIVERGED}, True, id="differs"),
        pytest.param(True, {"to": "2026-01-09T00:00:00Z"}, True, id="of a range"),
    ],
)
@pytest.mark.parametrize("days", [-2, 0, 999], ids=["clock behind", "one clock", "clock ahead"])
def test_a_finding_is_current_until_a_later_complete_comparison_agrees(
    settings: Settings, is_recorded_first: bool, changes: dict[str, Any], days: int, *, stands: bool
) -> None:
    wrong = audit(REGRESSION)
    compared: dict[str, Any] = {"verdict": Verdict.CONSISTENT, "exit_code": 0, "sentence": ""} | changes
    seal = Seal(epoch=3, stream_version=None)
    outcome = ComparisonOutcome(finding=Finding(pipeline=PIPELINE.name, seal=seal, **compared))
    lake = PipelineLake(settings, PIPELINE)
    if is_recorded_first:
        history.record_audit(lake, wrong)
    at = NOON + timedelta(days=days)
    record(settings, outcome, at)
    if not is_recorded_first:
        history.record_audit(lake, wrong)

    (stored,) = history.list_audits(lake)
    assert stored.seen == (0 if is_recorded_first else 1)
    assert history.find_open_regression(lake) == (stored if stands else None)


def test_a_finding_without_a_sequence_is_current_until_an_audit_agrees(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    wrong = audit(REGRESSION)
    monkeypatch.setattr(history, "list_audits", lambda *_: (wrong,))
    finding = Finding(pipeline=PIPELINE.name, seal=Seal(epoch=3), verdict=Verdict.CONSISTENT, exit_code=0, sentence="")
    record(settings, ComparisonOutcome(finding=finding), NOON)

    assert history.find_open_regression(PipelineLake(settings, PIPELINE)) == wrong
