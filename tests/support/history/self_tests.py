"""A self-test that was passed, for tests of what comes after it."""

from datetime import datetime

from cutover.clock import SystemClock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.reconcile.result.parts import rate
from cutover.reconcile.selftest.outcome import SelfTest
from cutover.reconcile.selftest.record import record_self_test
from cutover.settings import Settings


def make_passed(at: datetime, *, pipeline: str = "sales", fingerprint: str = "aa") -> SelfTest:
    return SelfTest(
        pipeline=pipeline,
        at=at.isoformat(),
        seed=1,
        trials=40,
        result_fingerprint=fingerprint,
        epoch=1,
        detection_rate=rate(500, 500),
        false_alarm_rate=rate(0, 2_000),
        right_cause_rate=rate(500, 500),
        by_kind={},
        refused=0,
        not_compared=0,
        drawn_in=0,
        failures=(),
        seconds=1.0,
    )


def record_passed(settings: Settings, pipeline: Pipeline) -> None:
    """Record a self-test that has just passed."""
    clock = SystemClock()
    self_test = make_passed(clock.now(), pipeline=pipeline.name, fingerprint=result_fingerprint(pipeline))
    record_self_test(settings, self_test, clock)
