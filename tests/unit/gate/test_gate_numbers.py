"""Boundaries of eligible runs, and a decision as Prometheus metrics: resulting stage, allowed or not, conditions."""

import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.definition.model.policy import Stage
from cutover.metrics import MetricSample
from cutover.reconcile.gate import stage
from cutover.reconcile.gate.decide import Condition, EvidenceRun, GateDecision, LostWindows, is_newer_cut, list_blocks
from tests.support.history.gate_evidence import HOUR, make_run

PIPELINE = Pipeline(
    name="clicks",
    source=Topic(name="t", schema="k string, at timestamp", event_time="at"),
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count()},
)


@pytest.mark.parametrize(
    ("missing", "resulting_stage", "allowed"),
    [(0, Stage.SHADOW, 1.0), (1, Stage.LAMBDA, 0.0)],
    ids=["moved", "refused"],
)
def test_a_decision_is_published_as_metrics(missing: int, resulting_stage: Stage, allowed: float) -> None:
    conditions = [Condition(name=f"c{n}", is_met=n >= missing, detail="") for n in range(3)]
    decision = GateDecision(move="advance", stage=Stage.LAMBDA, target=Stage.SHADOW, conditions=tuple(conditions))

    assert list(stage.list_gate_samples(PIPELINE, decision)) == [
        *(
            MetricSample("cutover_gate_stage", ("clicks", str(stage)), float(stage is resulting_stage))
            for stage in Stage
        ),
        MetricSample("cutover_gate_allowed", ("clicks", "advance"), allowed),
        MetricSample("cutover_gate_conditions", ("clicks", "met"), 3 - missing),
        MetricSample("cutover_gate_conditions", ("clicks", "missing"), missing),
    ]


LOSS = LostWindows(epoch=4, closed_at=500, text="lost")


@pytest.mark.parametrize(
    ("evidence_run", "touched"),
    [
        pytest.param(make_run(4, watermark=500), False, id="at the first cut behind it, behind its last window"),
        pytest.param(make_run(3, watermark=900), True, id="at the last cut before it"),
        pytest.param(make_run(3, age=-HOUR, watermark=900), True, id="at a cut before it, of a clock that ran ahead"),
        pytest.param(
            make_run(4, age=99 * HOUR, watermark=900), False, id="at a cut behind it, of a clock that is behind"
        ),
        pytest.param(make_run(4, watermark=499), True, id="its last window is open"),
    ],
)
def test_a_run_after_a_loss_no_longer_touches_its_windows(evidence_run: EvidenceRun, touched: bool) -> None:
    assert LOSS.touches(evidence_run) is touched


@pytest.mark.parametrize(
    ("end", "earlier_end", "ahead"), [(None, None, True), (7, None, True), (None, 7, True), (8, 7, True), (7, 7, False)]
)
def test_a_later_epoch_is_ahead_unless_it_read_nothing(end: int | None, earlier_end: int | None, ahead: bool) -> None:
    assert is_newer_cut(make_run(2, end=end), make_run(1, end=earlier_end)) is ahead


def test_divergence_of_a_range_counts_against_the_newest_block() -> None:
    runs = [make_run(n, first_sequence=n) for n in (1, 2, 3)]
    late = make_run(2, first_sequence=4, covers_all_windows=False, outcome="DIVERGED", is_within_policy=False)

    assert list_blocks((*runs, late)) == (False, False, True)
