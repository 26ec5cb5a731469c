"""Time policy of a follower: the watermarks of the job, or the newest event time of one that drops nothing."""

from cutover.definition.model.pipeline import FOLLOWED_LATENESS
from cutover.records.watermark import Observation, WatermarkState
from cutover.streaming.process.time_policy import FollowedTimePolicy


def advance(policy: FollowedTimePolicy, state: WatermarkState, **events: int) -> WatermarkState:
    newest = {int(name[1:]): micros for name, micros in events.items()}
    return policy.advance(state, Observation(now=0.0, read={}, high={}, max_event=newest), FOLLOWED_LATENESS)


def test_the_watermark_is_that_of_the_job_and_never_goes_back() -> None:
    policy, state = FollowedTimePolicy(closes=True), WatermarkState()

    assert advance(policy, state, p0=90).watermark == 0  # as Spark's: windows before 1970 are closed
    policy.watermark = 50
    state = advance(policy, state, p0=90)
    assert (state.watermark, state.max_event) == (50, {0: 90})
    policy.watermark = 40
    assert advance(policy, state, p0=80, p1=7) == WatermarkState(watermark=50, max_event={0: 90, 1: 7})


def test_of_a_job_that_drops_nothing_windows_close_by_the_newest_event() -> None:
    policy = FollowedTimePolicy(closes=False)
    policy.watermark = 50

    assert advance(policy, WatermarkState(), p0=90, p1=70).watermark == 90
