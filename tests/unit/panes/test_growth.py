"""Work of a simulation, which grows linearly with its points; counted in function calls."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from cutover.definition import (
    Accumulation,
    AfterCount,
    AfterDelay,
    AtWatermark,
    EachEpoch,
    Fixed,
    Global,
    Repeat,
    Sessions,
    Sum,
)
from cutover.definition.model.triggers import Trigger
from cutover.definition.windows.kinds import Window
from cutover.panes import reference
from cutover.panes.model import Estimator, InputRow, Outcome, Setting

MILLISECOND = 1_000
ONE_KEY, MANY_KEYS = 1, 1_000_000


def setting(points: int, keys: int, window: Window, trigger: Trigger, apart: int) -> Setting:
    rows = tuple(
        InputRow(
            event_time=(number * apart - number * 7 % 40) * MILLISECOND,
            processing_time=number * MILLISECOND,
            key=number % keys,
            columns={"value": number % 9},
        )
        for number in range(points)
    )
    return Setting(
        rows=rows,
        measure=Sum("value"),
        window=window,
        trigger=trigger,
        accumulation=Accumulation.RETRACTING,
        watermark=Estimator(out_of_orderness=50 * MILLISECOND),
        epochs=tuple(number * MILLISECOND for number in range(0, points, 5)),
    )


def calls(run: Callable[[Setting], Outcome], scenario: Setting) -> int:
    """Count the calls of Python and C functions."""
    call_count = 0

    def count(frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG001 -- Python's signature
        nonlocal call_count
        call_count += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        run(scenario)
    finally:
        sys.setprofile(None)
    return call_count


@pytest.mark.parametrize("run", [reference.run, reference.run_batch])
@pytest.mark.parametrize(
    ("keys", "window", "trigger", "apart"),
    [
        (ONE_KEY, Global(), Repeat(AfterCount(1)), 1),
        (ONE_KEY, Fixed(seconds=1), Repeat(AtWatermark()), 100),
        (ONE_KEY, Fixed(seconds=1000), AtWatermark(early=EachEpoch(), late=EachEpoch(), always=True), 1),
        (ONE_KEY, Sessions("50 milliseconds"), Repeat(AtWatermark()), 100),
        (ONE_KEY, Sessions("1 second"), Repeat(AfterCount(1)), 1),
        (MANY_KEYS, Global(), Repeat(AfterDelay("700 milliseconds")), 1),
        (MANY_KEYS, Fixed(seconds=1), Repeat(EachEpoch()), 1),
    ],
)
def test_twice_the_points_are_twice_the_work(
    run: Callable[[Setting], Outcome], keys: int, window: Window, trigger: Trigger, apart: int
) -> None:
    few, many = (calls(run, setting(points, keys, window, trigger, apart)) for points in (400, 800))

    assert many < 2.5 * few
