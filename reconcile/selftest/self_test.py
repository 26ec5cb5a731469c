"""A self-test from its copy to its rates."""

from collections.abc import Callable

from cutover.clock import Clock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.reconcile.attribution.log_rows import LogReader
from cutover.reconcile.selftest.clean_copy import open_clean_copy
from cutover.reconcile.selftest.copied_lake import open_copy
from cutover.reconcile.selftest.outcome import SelfTest
from cutover.reconcile.selftest.totals import add_up
from cutover.reconcile.selftest.trial import run_trial
from cutover.reconcile.selftest.trial_result import TrialResult
from cutover.settings import Settings

FAILURES_AT_MOST = 50
Progress = Callable[[int, int], None]  # trials done, of


def self_test(  # noqa: PLR0913 -- what is drawn, and what a test hands in
    settings: Settings,
    pipeline: Pipeline,
    *,
    seed: int,
    trials: int,
    clock: Clock,
    log: LogReader | None = None,
    progress: Progress = lambda done, of: None,  # noqa: ARG005 -- names of what is told
) -> SelfTest:
    """Plant defects in copies of a pipeline's tables, compare, and count; the served tables are only read.

    Args:
        settings: Where lake and log are.
        pipeline: The definition; both its sides have to be comparable.
        seed: Draws what is planted.
        trials: Comparisons.
        clock: For the time of the test and how long it took.
        log: What is asked for records; None: the cluster of the settings.
        progress: Told after each trial.

    Raises:
        LakeError: The sides cannot be compared as they are, or the lake cannot be copied.
    """
    at, began = clock.now(), clock.monotonic()
    with open_copy(settings, pipeline) as copied:
        clean = open_clean_copy(copied, pipeline, log)
        results: list[TrialResult] = []
        for number in range(1, trials + 1):
            results += run_trial(clean, number, seed)
            progress(number, trials)
    totals = add_up(results)
    return SelfTest(
        pipeline=pipeline.name,
        at=at.isoformat().replace("+00:00", "Z"),
        seed=seed,
        trials=trials,
        result_fingerprint=result_fingerprint(pipeline),
        epoch=clean.epoch,
        detection_rate=totals.detection_rate,
        false_alarm_rate=totals.false_alarm_rate,
        right_cause_rate=totals.right_cause_rate,
        by_kind=totals.by_kind,
        refused=totals.refused,
        unjudged=totals.unjudged,
        drawn_in=totals.drawn_in,
        failures=tuple(failure for result in results for failure in result.all_failures)[:FAILURES_AT_MOST],
        seconds=round(clock.monotonic() - began, 3),
    )
