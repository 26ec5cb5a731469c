"""Conditions on the log, the present state and hazards as a person reads them, compared as complete values."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cutover.definition.model.policy import Stage
from cutover.reconcile.gate.decide import Condition, PresentState, RecordedHazard, Replayability
from cutover.reconcile.result.text import THIN
from tests.support.history.gate_evidence import DAY, HOUR, NOW, POLICY, ROOMY, make_present_state, make_run
from tests.unit.gate.test_conditions import AT_LEAST, NO_CAUSE, condition
from tests.unit.gate.test_criteria import evaluate_conditions

NEED = DAY + 2 * DAY + 2 * HOUR  # found, approved, twice the replay
ASKED = (
    f"3{THIN}d 2{THIN}h are required: 1{THIN}d for detection, 2{THIN}d for approval, "
    f"two replays of 1{THIN}h at the measured speed"
)
LONGER = f"`retention.ms` of at least {int(NEED.total_seconds()) * 1000}, and no compaction"
LARGER = "a larger `retention.bytes`, or more time in which the log shows how long it retains records"


@pytest.mark.parametrize(
    ("replay", "by_time", "by_size"),
    [
        pytest.param(ROOMY, ("is kept forever", None, ""), ("is not limited by size", None, ""), id="without an end"),
        pytest.param(
            Replayability(retention=7 * DAY, replay_time=HOUR, is_bounded=True, retained_since=NOW - 4 * DAY),
            (f"is kept for 7{THIN}d", 7 * DAY, ""),
            (f"has held its records for 4{THIN}d within its size limit", 4 * DAY, ""),
            id="long enough",
        ),
        pytest.param(
            Replayability(retention=timedelta(0), replay_time=HOUR, is_bounded=True, retained_since=NOW - DAY),
            ("is compacted", timedelta(0), LONGER),
            (f"has held its records for 1{THIN}d within its size limit", DAY, LARGER),
            id="neither",
        ),
        pytest.param(
            Replayability(retention=None, replay_time=HOUR, is_bounded=True),
            ("is kept forever", None, ""),
            (f"has held its records for 0{THIN}s within its size limit", timedelta(0), LARGER),
            id="nothing read",
        ),
    ],
)
def test_retention_of_the_log_is_compared_with_the_time_a_replay_needs(
    replay: Replayability, by_time: tuple[str, timedelta | None, str], by_size: tuple[str, timedelta | None, str]
) -> None:
    conditions = evaluate_conditions(replay=replay)

    for name, (retention_text, retention, need) in (("replay", by_time), ("replay by size", by_size)):
        number = None if retention is None else retention.total_seconds()
        fields = {"need": need} if need else {}
        assert conditions[name] == condition(
            name,
            f"the log {retention_text}; {ASKED}",
            number,
            NEED.total_seconds(),
            **AT_LEAST,
            unit="seconds",
            **fields,
        )


def test_unmeasured_retention_has_no_number() -> None:
    silent = "the log did not respond, so its retention is unknown"
    unmeasured = "no epoch was committed, so the time of a replay is not measured"
    fields = {**AT_LEAST, "unit": "seconds"}

    assert evaluate_conditions(replay=None)["replay"] == condition(
        "replay", silent, None, None, **fields, need="a reachable broker: `cutover doctor`"
    )
    assert evaluate_conditions(replay=Replayability(retention=None, replay_time=None))["replay"] == condition(
        "replay", unmeasured, None, None, **fields, need="an epoch with records: `cutover stream P --drain`"
    )


def test_a_rejected_sample_counts_as_one_and_names_its_remedy() -> None:
    asks = "a fault in 1 % of the rows of final windows is found within 7 days with a chance of 95 %"
    need = "a policy that a sample can meet: `policy.audit` in the definition"

    assert evaluate_conditions(stage=Stage.SHADOW, audit_refusal="got sessions.")["audit"] == condition(
        "audit", "got sessions.", 1, 0, unit="refusals", need=need
    )
    assert evaluate_conditions(stage=Stage.SHADOW, audit_refusal=None)["audit"] == condition(
        "audit", f"daily samples can detect what the policy requires: {asks}", 0, 0, unit="refusals"
    )


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        pytest.param(
            make_present_state(),
            [
                condition("compared now", "EXPLAINED: Agree.", 0, 0, unit="runs beyond policy"),
                condition("verified now", "no check is violated", 0, 0, unit="violations"),
                condition("alerts now", "no alert pages someone", 0, 0, unit="pages"),
            ],
            id="all is well",
        ),
        pytest.param(
            make_present_state(
                run=make_run(3, is_within_policy=False, outcome="DIVERGED"),
                reason="Differ.",
                violations=("N1: a", "N2: b", "N3: c"),
                check_error="no table",
                pages=("A: x", "B: y"),
            ),
            [
                condition("compared now", "DIVERGED: Differ.", 1, 0, unit="runs beyond policy", need=NO_CAUSE),
                condition(
                    "verified now",
                    "N1: a; N2: b; N3: c",
                    4,
                    0,
                    unit="violations",
                    need="`cutover verify P` without a violation",
                ),
                condition(
                    "alerts now",
                    "A: x; B: y",
                    2,
                    0,
                    unit="pages",
                    need="the remedies of the alerts: `cutover watch P --once`",
                ),
            ],
            id="nothing is",
        ),
    ],
)
def test_present_problems_are_counted(present: PresentState, expected: list[Condition]) -> None:
    conditions = evaluate_conditions(present=present)

    assert [conditions[condition.name] for condition in expected] == expected


WANTED = replace(POLICY, hazards=("late_burst",), hazards_within="2 days")
SEEN = RecordedHazard(kind="late_burst", epoch=2, at=NOW - 2 * DAY, text="90 late records in epoch 2")
WITHIN = f"required within 2{THIN}d"


@pytest.mark.parametrize(
    ("hazard", "runs", "detail", "number", "need"),
    [
        pytest.param(
            None,
            (make_run(3),),
            f"never recorded of this version; {WITHIN}",
            0,
            "an epoch with 10 late records and more than the policy's late share",
            id="never",
        ),
        pytest.param(
            SEEN,
            (
                make_run(1),
                make_run(2),
                make_run(3),
                make_run(4, is_within_policy=False),
                make_run(5, covers_all_windows=False),
            ),
            f"2026-11-19 12:00 UTC: 90 late records in epoch 2; {WITHIN}; "
            "2 runs at its cut or a newer one within policy",
            2,
            "",
            id="just within, whole runs that agreed at its cut or behind it count",
        ),
        pytest.param(
            replace(SEEN, at=NOW - 2 * DAY - HOUR),
            (make_run(2),),
            f"2026-11-19 11:00 UTC: 90 late records in epoch 2; {WITHIN}",
            0,
            "an epoch with 10 late records and more than the policy's late share",
            id="too long ago",
        ),
        pytest.param(
            SEEN,
            (make_run(1),),
            f"2026-11-19 12:00 UTC: 90 late records in epoch 2; {WITHIN}; "
            "0 runs at its cut or a newer one within policy",
            0,
            "a run within policy at a newer cut: `cutover batch P` and `cutover reconcile P`, after the stream has read"
            " new records: a drained log has no newer cut",
            id="not compared since",
        ),
    ],
)
def test_a_hazard_counts_the_runs_after_it(
    hazard: RecordedHazard | None, runs: tuple[Any, ...], detail: str, number: int, need: str
) -> None:
    fields = {"need": need} if need else {}
    hazards = () if hazard is None else (hazard,)

    assert evaluate_conditions(WANTED, hazards=hazards, runs=runs)["hazard late_burst"] == condition(
        "hazard late_burst", detail, number, 1, **AT_LEAST, unit="runs behind it", **fields
    )


def test_a_policy_without_hazards_requires_none() -> None:
    assert evaluate_conditions()["hazards"] == condition("hazards", "the policy requires none; recorded: none", 0, 0)
