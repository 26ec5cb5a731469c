"""Bounds of what counts, and what a decision tells Prometheus: the stage behind it, allowed or not, what is missing."""

import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.lake.control.stages import Stage
from cutover.metrics.families import MetricSample
from cutover.reconcile.gate import gate_metrics
from cutover.reconcile.gate.decide import Condition, EvidenceRun, GateDecision, LostWindows, is_ahead, list_blocks
from tests.unit.gate.test_decide import HOUR, run

PIPELINE = Pipeline(
    name="clicks",
    source=Topic(name="t", schema="k string, at timestamp", event_time="at"),
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count()},
)


@pytest.mark.parametrize(
    ("missing", "behind", "allowed"), [(0, Stage.SHADOW, 1.0), (1, Stage.LAMBDA, 0.0)], ids=["moved", "refused"]
)
def test_a_decision_is_told_as_numbers(missing: int, behind: Stage, allowed: float) -> None:
    conditions = [Condition(name=f"c{n}", is_met=n >= missing, detail="") for n in range(3)]
    decision = GateDecision(move="advance", stage=Stage.LAMBDA, target=Stage.SHADOW, conditions=tuple(conditions))

    assert list(gate_metrics.samples(PIPELINE, decision)) == [
        *(MetricSample("cutover_gate_stage", ("clicks", str(stage)), float(stage is behind)) for stage in Stage),
        MetricSample("cutover_gate_allowed", ("clicks", "advance"), allowed),
        MetricSample("cutover_gate_conditions", ("clicks", "met"), 3 - missing),
        MetricSample("cutover_gate_conditions", ("clicks", "missing"), missing),
    ]


LOSS = LostWindows(epoch=4, closed_at=500, text="lost")


@pytest.mark.parametrize(
    ("found", "touched"),
    [
        pytest.param(run(4, watermark=500), False, id="at the first cut behind it, behind its last window"),
        pytest.param(run(3, watermark=900), True, id="at the last cut before it"),
        pytest.param(run(3, age=-HOUR, watermark=900), True, id="at a cut before it, of a clock that ran ahead"),
        pytest.param(run(4, age=99 * HOUR, watermark=900), False, id="at a cut behind it, of a clock that is behind"),
        pytest.param(run(4, watermark=499), True, id="its last window is open"),
    ],
)
def test_a_run_speaks_for_lost_windows_up_to_a_bound(found: EvidenceRun, touched: bool) -> None:
    assert LOSS.touches(found) is touched


@pytest.mark.parametrize(
    ("end", "before", "ahead"), [(None, None, True), (7, None, True), (None, 7, True), (8, 7, True), (7, 7, False)]
)
def test_a_later_epoch_is_ahead_unless_it_is_known_to_have_read_nothing(
    end: int | None, before: int | None, ahead: bool
) -> None:
    assert is_ahead(run(2, end=end), run(1, end=before)) is ahead


def test_what_a_range_finds_is_held_against_the_newest_of_some_blocks() -> None:
    runs = [run(n, first_sequence=n) for n in (1, 2, 3)]
    late = run(2, first_sequence=4, covers_all_windows=False, outcome="DIVERGED", is_within_policy=False)

    assert list_blocks((*runs, late)) == (False, False, True)
