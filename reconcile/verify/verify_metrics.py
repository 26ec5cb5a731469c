"""What the checks tell: the state of each, and how many violations there are."""

from collections.abc import Iterator

from cutover.definition.model.pipeline import Pipeline
from cutover.metrics.families import MetricSample
from cutover.reconcile.verify.model import CheckState, Verification


def samples(pipeline: Pipeline, verification: Verification) -> Iterator[MetricSample]:
    """Yield one number a check and state; where nothing could be judged, no state is 1."""
    for name, checked in verification.checks.items():
        for state in CheckState:
            yield MetricSample("cutover_verify_check", (pipeline.name, name, str(state)), float(state is checked.state))
    yield MetricSample("cutover_verify_violations", (pipeline.name,), len(verification.violations))
