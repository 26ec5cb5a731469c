"""Metrics of a decision of the gate: the resulting stage, whether the move was allowed, unmet conditions."""

from collections.abc import Iterator

from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control.stages import Stage
from cutover.metrics.families import MetricSample
from cutover.reconcile.gate.decide import GateDecision


def samples(pipeline: Pipeline, decision: GateDecision) -> Iterator[MetricSample]:
    """Yield the metrics of a decision."""
    name = pipeline.name
    current = decision.target if decision.allowed else decision.stage
    for stage in Stage:
        yield MetricSample("cutover_gate_stage", (name, str(stage)), float(stage is current))
    yield MetricSample("cutover_gate_allowed", (name, decision.move), float(decision.allowed))
    met_count = sum(condition.is_met for condition in decision.conditions)
    for state, number in (("met", met_count), ("missing", len(decision.conditions) - met_count)):
        yield MetricSample("cutover_gate_conditions", (name, state), number)
