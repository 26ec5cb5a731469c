"""Metrics of the checks: the state of each, and the number of violations."""

from collections.abc import Iterator

from cutover.definition.model.pipeline import Pipeline
from cutover.metrics.families import MetricSample
from cutover.reconcile.verify.model import CheckState, Verification


def samples(pipeline: Pipeline, verification: Verification) -> Iterator[MetricSample]:
    """Yield a sample for each check and state; if no check could be evaluated, no state is 1."""
    for name, result in verification.checks.items():
        for state in CheckState:
            yield MetricSample("cutover_verify_check", (pipeline.name, name, str(state)), float(state is result.state))
    yield MetricSample("cutover_verify_violations", (pipeline.name,), len(verification.violations))
