"""A self-test from its copy to its rates."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from cutover.clock import Clock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.reconcile.attribution.log_rows import LogReader
from cutover.reconcile.result.rates import rate
from cutover.reconcile.selftest.clean_copy import CleanCopy, open_clean_copy
from cutover.reconcile.selftest.copied_lake import open_copy
from cutover.reconcile.selftest.outcome import KindCounts, SelfTest
from cutover.reconcile.selftest.trial import TrialResult, run_trial
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
        results = []
        for number in range(1, trials + 1):
            results.append(run_trial(clean, number, seed))
            progress(number, trials)
    return _add_up(clean, results, seed, at.isoformat().replace("+00:00", "Z"), clock.monotonic() - began)


def _add_up(clean: CleanCopy, results: Sequence[TrialResult], seed: int, at: str, seconds: float) -> SelfTest:
    kinds: dict[str, KindCounts] = defaultdict(KindCounts)
    for plant in (plant for result in results for plant in result.plants):
        kinds[plant.kind] = kinds[plant.kind].plus(plant.planted, plant.found, plant.named)
    planted, found, named = (
        sum(getattr(one, name) for one in kinds.values()) for name in ("planted", "found", "named")
    )
    kept, right = sum(result.kept for result in results), sum(result.kept_right for result in results)
    failures = [text for result in results for plant in result.plants for text in plant.failures]
    failures += [text for result in results for text in result.failures]
    untouched = sum(result.clean_windows for result in results)
    return SelfTest(
        pipeline=clean.pipeline.name,
        at=at,
        seed=seed,
        trials=len(results),
        result_fingerprint=result_fingerprint(clean.pipeline),
        epoch=clean.epoch,
        detection_rate=rate(found, planted),
        false_alarm_rate=rate(sum(result.false_alarms for result in results), untouched),
        right_cause_rate=rate(named + right, found + kept),
        by_kind=dict(sorted(kinds.items())),
        failures=tuple(failures[:FAILURES_AT_MOST]),
        seconds=round(seconds, 3),
    )
