"""Evidence that the gate reads: runs of the current version since the last move, and the duration of a replay."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cutover.definition import Lateness
from cutover.definition.model.policy import Policy, Stage
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal_rows import ComparisonRow, GateEvent
from cutover.reconcile.gate import evidence
from cutover.reconcile.gate.decide import EvidenceRun, GateDecision, GateEvidence
from cutover.reconcile.verdict.records import fold_lines
from cutover.reconcile.watch import collector
from tests.integration.streaming import rig
from tests.support.history.journal_rows import make_row
from tests.support.log.losses import LOSS as A_LOSS
from tests.unit.reconcile.attribution.indexed import make_run

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
VERSION = Version(pipeline="p", result_fingerprint="aa", lateness_fingerprint="bb", number=1, uri="lake")


def row(epoch: int | None, **changes: Any) -> ComparisonRow:
    result = {"windows": {"compared": 5}, "causes": {"late": {"rows": 3, "events": 4}, "future": {"rows": 0}}}
    base = {
        "run_id": f"r{epoch}",
        "at": AT + timedelta(minutes=epoch or 0),
        "epoch": epoch,
        "result_fingerprint": "aa",
        "stream_version": 1,
        "verdict": "EXPLAINED",
        "exit_code": 0,
        "result": json.dumps(result),
        "sequence": epoch or 0,
        "comparison_key": "k",
        "content_digest": "c",
    }
    return make_row(ComparisonRow, **base | changes)


def runs(rows: list[ComparisonRow], **of: Any) -> tuple[EvidenceRun, ...]:
    return evidence.list_runs(fold_lines(rows), VERSION, **of)


def extend_report(row: ComparisonRow, **changes: Any) -> ComparisonRow:
    """Add fields to the report of a comparison row."""
    return replace(row, result=json.dumps(json.loads(row.result) | changes))


def cut(*offsets: int) -> dict[str, Any]:
    return {"logs": [{"cut": {str(partition): offset for partition, offset in enumerate(offsets)}}]}


def move(event: str, next_comparison: int, counted_epochs: tuple[int, ...] = (), **of: Any) -> GateEvent:
    payload = {
        "counted": [{"run_id": "r", "epoch": epoch, "at": AT.isoformat()} for epoch in counted_epochs],
        "result_fingerprint": "aa",
        "stream_version": 1,
    } | of
    return make_row(GateEvent, event=event, at=AT, next_comparison=next_comparison, evidence=json.dumps(payload))


def epoch(records: int, seconds: float) -> EpochRecord:
    return EpochRecord(
        epoch=0,
        run_id="r",
        topic="t",
        topic_id="T",
        cluster_id="C",
        start={},
        end={},
        max_event={},
        watermark_before=None,
        watermark_after=None,
        records=records,
        seconds=seconds,
    )


@pytest.mark.parametrize(
    ("changes", "outcome", "is_within_policy"),
    [
        ({}, "EXPLAINED", True),
        ({"exit_code": 1}, "EXPLAINED_BEYOND_POLICY", False),
        ({"verdict": "DIVERGED", "exit_code": 1}, "DIVERGED", False),
        ({"verdict": "NOT_COMPARABLE", "exit_code": 2, "stream_version": None}, "NOT_COMPARABLE", False),
    ],
)
def test_recorded_run_is_read(changes: dict[str, Any], outcome: str, is_within_policy: bool) -> None:
    (recorded_run,) = runs([row(4, **changes)])

    assert (recorded_run.outcome, recorded_run.is_within_policy, recorded_run.windows) == (outcome, is_within_policy, 5)
    assert recorded_run.rows_by_cause == (("late", 3),)


def test_runs_of_another_version_or_definition_are_ineligible() -> None:
    rows = [row(1, stream_version=0), row(2, result_fingerprint="zz"), row(3)]

    assert [run.epoch for run in runs(rows)] == [3]


def test_runs_before_the_last_move_are_ineligible() -> None:
    evidence_runs = runs([row(1), row(2), row(5)])

    assert [
        r.epoch
        for r in evidence.select_runs_after_last_move(
            evidence_runs, [move("advanced", 3, counted_epochs=(1, 2))], VERSION
        )
    ] == [5]


def test_run_at_a_cut_that_an_earlier_move_counted_is_ineligible() -> None:
    evidence_runs = runs([row(2, sequence=4), row(3, sequence=5)])

    assert [
        r.epoch
        for r in evidence.select_runs_after_last_move(
            evidence_runs, [move("advanced", 3, counted_epochs=(1, 2))], VERSION
        )
    ] == [3]


def test_cuts_of_another_version_exclude_no_run() -> None:
    evidence_runs = runs([row(5)])

    assert [
        r.epoch
        for r in evidence.select_runs_after_last_move(
            evidence_runs, [move("advanced", 3, counted_epochs=(40,), stream_version=0)], VERSION
        )
    ] == [5]


def test_the_end_of_a_cut_is_read() -> None:
    rows = [extend_report(row(1), seal=cut(4, 5)), extend_report(row(2), seal={"logs": []})]

    assert [run.end for run in runs(rows)] == [4 + 5, None]


def test_a_requested_range_does_not_cover_all_windows() -> None:
    evidence_runs = runs(
        [extend_report(row(1), **{"from": "2026-01-01T00:00:00Z"}), extend_report(row(2), to="x"), row(3)]
    )

    assert [run.covers_all_windows for run in evidence_runs] == [False, False, True]


def test_a_run_with_another_sql_is_evidence_only_if_it_failed() -> None:
    seal = {"fingerprints": {"batch_definition": "old"}}
    rows = [extend_report(row(1), seal=seal), extend_report(row(2, verdict="DIVERGED", exit_code=1), seal=seal), row(3)]

    assert [run.epoch for run in runs(rows, batch_definition="new")] == [2, 3]


def test_agreement_with_other_tables_of_jobs_or_with_a_part_of_their_rows_is_no_evidence() -> None:
    job = {"side": "batch", "level": "reproduced", "fingerprint": "now", "rows": 95, "not_judged": 0}
    jobs = [
        [],
        [job],
        [job | {"fingerprint": "before"}],
        [job | {"level": "bounded", "not_judged": 5}],
        [job, job | {"side": "streaming"}],
    ]
    rows = [extend_report(row(epoch), jobs=compared) for epoch, compared in enumerate(jobs, 1)]
    rows.append(extend_report(row(6, verdict="DIVERGED", exit_code=1), jobs=[job | {"level": "sealed by offsets"}]))

    assert [run.epoch for run in runs(rows, jobs={"batch": "now"})] == [2, 6]
    assert [run.epoch for run in runs(rows, jobs={})] == [1, 4, 6]  # no job is required any more


@pytest.mark.parametrize(("share", "is_evidence"), [(1.0, False), (0.56, False), (0.55, True), (0.5, True)])
def test_a_policy_may_accept_a_job_of_which_a_share_of_rows_is_judged(share: float, is_evidence: bool) -> None:
    job = {"side": "batch", "level": "bounded", "fingerprint": "now", "rows": 55, "not_judged": 45}
    policy = Policy(min_judged_share=share)

    assert bool(runs([extend_report(row(1), jobs=[job])], jobs={"batch": "now"}, policy=policy)) is is_evidence
    nothing_judged = extend_report(row(1), jobs=[job | {"rows": 0}])
    assert not runs([nothing_judged], jobs={"batch": "now"}, policy=policy)


@pytest.mark.parametrize(
    ("policy", "is_within_policy"), [(Policy(max_late_share=0.1), True), (Policy(max_late_share=0.09), False)]
)
def test_runs_are_evaluated_against_the_current_policy(policy: Policy, is_within_policy: bool) -> None:
    rows = [extend_report(row(1), policy={"late_share": 0.1, "unexplained": 0})]

    assert [run.is_within_policy for run in runs(rows, policy=policy)] == [is_within_policy]


@pytest.mark.parametrize(("max_rows", "is_within_policy"), [(4, True), (3, False)])
def test_runs_are_evaluated_against_the_current_dimension_limit(max_rows: int, is_within_policy: bool) -> None:
    rows = [extend_report(row(1), causes={"dimension": {"rows": 4}})]

    assert [run.is_within_policy for run in runs(rows, policy=Policy(max_dimension_rows=max_rows))] == [
        is_within_policy
    ]


def test_bad_run_after_a_move_is_selected_at_any_cut() -> None:
    evidence_runs = runs([row(2, sequence=4, exit_code=1)])

    assert [
        r.is_within_policy
        for r in evidence.select_runs_after_last_move(
            evidence_runs, [move("advanced", 3, counted_epochs=(1, 2))], VERSION
        )
    ] == [False]


@pytest.mark.parametrize("hours", [-48, 48], ids=["a clock behind", "a clock ahead"])
def test_runs_known_to_a_move_follow_from_the_history_and_not_from_clocks(hours: int) -> None:
    at = AT + timedelta(hours=hours)
    rows = [row(1, at=at), row(2, at=at), row(2, run_id="bad", at=at, sequence=3, exit_code=1), row(5, at=at)]

    selected_runs = evidence.select_runs_after_last_move(
        runs(rows), [move("advanced", 3, counted_epochs=(1, 2))], VERSION
    )

    assert [(run.run_id == "bad", run.epoch) for run in selected_runs] == [(True, 2), (False, 5)]


def test_differences_add_up_by_cause() -> None:
    evidence_runs = runs([row(1), row(2)])

    assert evidence.count_rows_by_cause(evidence_runs) == {"late": 3 + 3}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, None),
        ({"retention.ms": "-1"}, None),
        ({"retention.ms": "60000"}, timedelta(minutes=1)),
        ({"retention.ms": str(2**63 - 1)}, None),
        ({"retention.ms": "-1", "cleanup.policy": "compact"}, timedelta(0)),
        ({"retention.ms": "-1", "retention.bytes": "1024"}, None),  # bounded by size, which is evaluated separately
    ],
)
def test_retention_of_a_topic_is_parsed(config: dict[str, str], expected: timedelta | None) -> None:
    assert collector.parse_retention(config) == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [({}, False), ({"retention.bytes": "-1"}, False), ({"retention.bytes": "1024"}, True)],
)
def test_size_limit_of_a_topic_is_parsed(config: dict[str, str], expected: bool) -> None:
    assert collector.is_limited_by_size(config) is expected


@pytest.mark.parametrize(
    ("earliest", "minutes"),
    [({0: 0, 1: 0}, 1), ({0: 5, 1: 0}, 2), ({0: 9, 1: 0}, 2), ({0: 10, 1: 0}, 1), ({0: 10}, None), ({}, None)],
)
def test_log_is_retained_since_its_oldest_records_were_read(earliest: dict[int, int], minutes: int | None) -> None:
    def read(end: int, at: int) -> EpochRecord:
        return replace(epoch(5, 1.0), end={0: end, 1: 5}, processing_time=(AT + timedelta(minutes=at)).isoformat())

    expected = None if minutes is None else AT + timedelta(minutes=minutes)

    assert collector.find_retained_since([read(5, 1), read(10, 2)], earliest, AT + timedelta(hours=1)) == expected


def test_replay_time_is_the_time_per_record_times_the_records_of_the_log() -> None:
    assert collector.estimate_replay_time([epoch(100, 2.0), epoch(300, 2.0), epoch(0, 9.0)], 1000) == timedelta(
        seconds=1000 * (2 + 2) / (100 + 300)
    )


def test_replay_time_is_unknown_before_an_epoch_with_records() -> None:
    assert collector.estimate_replay_time([epoch(0, 1.0)], 1000) is None


def test_hash_changes_with_the_evidence() -> None:
    def kept(number: int) -> str:
        run = EvidenceRun(run_id="r", at=AT, epoch=number, outcome="EXPLAINED", is_within_policy=True)
        decision = GateDecision(move="advance", stage=Stage.LAMBDA, target=Stage.SHADOW, eligible_runs=(run,))
        return str(json.loads(evidence.encode_evidence(decision, GateEvidence()))["hash"])

    assert kept(1) == kept(1)
    assert kept(1) != kept(2)


def test_recorded_hash_can_be_checked() -> None:
    decision = GateDecision(move="rollback", stage=Stage.SHADOW, target=Stage.LAMBDA)
    payload = json.loads(evidence.encode_evidence(decision, GateEvidence(result_fingerprint="aa")))

    assert evidence.compute_evidence_digest(payload) == payload["hash"]


FLIGHTS = rig.pipeline("flights", lateness=Lateness(allowed="5 minutes"))  # windows of 10 minutes
LOSS = replace(
    A_LOSS,
    sequence=0,
    result_fingerprint="aa",
    stream_version=1,
    epoch=4,
    topic="flights",
    windows_from=0,
    windows_to=30 * rig.MINUTE,
    at=AT,
)


def test_loss_lasts_until_its_last_window_is_closed() -> None:
    other = replace(LOSS, partition=1, next=45, windows_to=20 * rig.MINUTE)

    (lost_windows,) = evidence.list_lost_windows(FLIGHTS, [LOSS, other], LOSS.stream_version)

    assert (lost_windows.epoch, lost_windows.closed_at) == (LOSS.epoch, 35 * rig.MINUTE)
    assert lost_windows.text.startswith("25 offsets of flights were lost, accepted 2026-11-21 12:00 UTC by me")


def test_every_run_of_a_later_version_follows_a_loss_of_an_earlier_one() -> None:
    (lost_windows,) = evidence.list_lost_windows(FLIGHTS, [LOSS], LOSS.stream_version + 1)

    assert lost_windows.epoch == 0


def test_each_recorded_loss_counts_once_unless_it_touches_no_window() -> None:
    unknown = replace(LOSS, sequence=1, next=None)
    harmless = replace(LOSS, sequence=2, windows_from=None, windows_to=None)

    all_lost_windows = evidence.list_lost_windows(FLIGHTS, [LOSS, unknown, harmless], LOSS.stream_version)

    assert [lost_window.text.split(" of ")[0] for lost_window in all_lost_windows] == [
        "20 offsets",
        "an unknown number",
    ]


def test_run_has_the_watermark_of_its_cut() -> None:
    (recorded_run,) = runs([extend_report(row(4), seal={"watermark": "1970-01-01T00:00:01.000002Z"})])

    assert recorded_run.watermark == 1_000_002


def test_bad_run_before_a_rollback_remains_until_a_newer_cut_agrees() -> None:
    rows = [row(2), row(9, exit_code=1, verdict="DIVERGED"), row(5, sequence=10)]
    history = [move("advanced", 3, counted_epochs=(1, 2)), move("rolled_back", 10)]

    assert [run.epoch for run in evidence.select_runs_after_last_move(runs(rows), history, VERSION)] == [9]


def test_cuts_compared_before_a_rollback_are_ineligible() -> None:
    rows = [row(3), row(5), row(3, run_id="again", sequence=10), row(4, sequence=11), row(6, sequence=12)]
    history = [move("advanced", 1), move("rolled_back", 10)]

    assert [run.epoch for run in evidence.select_runs_after_last_move(runs(rows), history, VERSION)] == [6]


def test_the_newest_window_of_a_run_is_that_of_its_result() -> None:
    of = {"compared": 5, "first": "1970-01-01T00:00:00Z", "last": "1970-01-01T00:00:02Z"}

    assert [run.newest_window for run in runs([extend_report(row(1), windows=of), row(2)])] == [2_000_000, None]


def test_bad_run_is_ignored_after_an_advance() -> None:
    rows = [row(2, exit_code=1), row(2, run_id="again", sequence=3)]

    assert evidence.select_runs_after_last_move(runs(rows), [move("advanced", 3, counted_epochs=(2,))], VERSION) == ()


def test_request_for_a_missing_cut_is_not_a_run() -> None:
    refused: dict[str, Any] = {"verdict": "NOT_COMPARABLE", "exit_code": 2}
    vain = extend_report(row(None, run_id="vain", sequence=40, **refused), seal=NO_BATCH | {"epoch": 40})
    uncut = extend_report(row(None, sequence=41, **refused), seal=NO_BATCH)
    evidence_runs = runs([row(3), vain, uncut])

    assert [(run.epoch, run.is_within_policy) for run in evidence_runs] == [(3, True), (3, False)]


NO_BATCH = {"holds": False, "breaches": [{"code": "no_batch", "message": "none"}]}


@pytest.mark.parametrize(
    ("ahead", "retained_hours"), [(0, -3), (24 * 3_650, -2)], ids=["one clock", "years ahead: by the next epoch"]
)
def test_retention_starts_at_the_latest_time_an_epoch_can_have_read(ahead: int, retained_hours: int) -> None:
    def read(end: int, hours: int) -> EpochRecord:
        return replace(epoch(5, 1.0), end={0: end}, processing_time=(AT + timedelta(hours=hours)).isoformat())

    retained_since = collector.find_retained_since([read(5, ahead - 3), read(10, -2)], {0: 0}, AT)

    assert retained_since == AT + timedelta(hours=retained_hours)


def test_a_run_names_when_its_epoch_was_committed_and_its_batch_run_ended() -> None:
    inputs = evidence.EvidenceInputs(epochs={4: AT}, batch={"b1": AT + timedelta(hours=1)})
    rows = [extend_report(row(4), tables={"batch_run": "b1"}), row(5)]

    assert [run.inputs for run in runs(rows, inputs=inputs)] == [(AT, AT + timedelta(hours=1)), ()]


def test_inputs_are_those_that_recorded_a_time() -> None:
    records = [replace(epoch(5, 1.0), epoch=3, processing_time=AT.isoformat()), replace(epoch(5, 1.0), epoch=4)]
    batch = [replace(make_run("b1"), finished=AT.isoformat())]

    assert evidence.EvidenceInputs.of(records, batch) == evidence.EvidenceInputs(epochs={3: AT}, batch={"b1": AT})
