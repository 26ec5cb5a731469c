"""A self-test that was passed, for tests of what comes after it."""

from datetime import datetime

from cutover.clock import SystemClock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.journal_rows import record_self_test
from cutover.reconcile.result.measurements import SelfTest
from cutover.reconcile.result.parts import rate


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


def record_passed(lake: PipelineLake) -> None:
    """Record a self-test that has just passed."""
    clock = SystemClock()
    self_test = make_passed(clock.now(), pipeline=lake.name, fingerprint=result_fingerprint(lake.pipeline))
    record_self_test(lake.settings, self_test, clock)
