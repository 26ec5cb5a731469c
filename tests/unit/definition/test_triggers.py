"""Triggers: one that can never fire is rejected on construction; the others know what they wait for."""

from collections.abc import Callable
from typing import Any

import pytest

from cutover.definition import (
    AfterCount,
    AfterDelay,
    AtWatermark,
    EachEpoch,
    Every,
    Repeat,
    RepeatUntil,
    Sequence,
    Until,
)
from cutover.definition.model.triggers import Trigger, has_epoch_trigger, is_finite, waits_for_watermark
from cutover.errors import DefinitionError

NOT_ONCE: Any = Repeat(AfterCount(2))
"""What the type of `until` does not allow, and a definition file may hold all the same."""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AfterCount(0), "`AfterCount`: expected at least one row, got 0"),
        (lambda: AfterCount(-1), "expected at least one row, got -1"),
        (lambda: Every("0 minutes"), "`Every`: expected a period longer than zero, got `0 minutes`"),
        (lambda: AfterDelay("0 seconds"), "`AfterDelay`: expected a delay longer than zero, got `0 seconds`"),
        (lambda: AfterDelay("soon"), r"`trigger\.after_delay`: expected a whole number and a unit"),
        (lambda: AtWatermark(early=AtWatermark(always=True)), "it could never fire; leave it out"),
        (lambda: Every("often"), r"`trigger\.every`: expected a whole number and a unit"),
        (Sequence, "`Sequence`: expected at least one trigger, got none"),
        (lambda: Sequence(Repeat(AfterCount(1)), AtWatermark()), "the second could never fire"),
        (lambda: Sequence(AtWatermark(late=AfterCount(1)), AfterCount(1)), "the second could never fire"),
        (lambda: Sequence(Sequence(AfterCount(1), Repeat(EachEpoch())), AfterCount(1)), "the second could never fire"),
        (lambda: AtWatermark(early=AtWatermark()), "it could never fire; leave it out"),
        (lambda: AtWatermark(early=Repeat(AtWatermark(late=EachEpoch()))), "it could never fire"),
        (lambda: RepeatUntil(AtWatermark(), AtWatermark()), "it could never fire"),
        (lambda: RepeatUntil(AfterCount(5), AfterCount(4)), "it could never fire"),
        (lambda: Until(Sequence(AfterCount(5), AfterCount(1)), AfterCount(4)), "it could never fire"),
        (lambda: Until(AfterCount(1), NOT_ONCE), "expected an end that fires once"),
        (lambda: Until(AfterCount(1), AtWatermark(late=AfterCount(2))), "expected an end that fires once"),
    ],
)
def test_trigger_that_can_never_fire_is_rejected(make: Callable[[], Trigger], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        make()


@pytest.mark.parametrize(
    "trigger",
    [
        AtWatermark(early=Every("1 minute"), late=EachEpoch()),
        RepeatUntil(AfterCount(4), AfterCount(4)),
        Until(RepeatUntil(AtWatermark(), AfterCount(3)), AtWatermark()),
        Sequence(RepeatUntil(Every("1 minute"), AtWatermark()), Repeat(AtWatermark())),
        Repeat(Sequence(AfterCount(1), AfterCount(2))),
        RepeatUntil(AfterDelay("1 minute"), AtWatermark(always=True)),
        Until(AfterCount(1), AfterDelay("1 minute")),
    ],
)
def test_trigger_is_a_value(trigger: Trigger) -> None:
    assert hash(trigger) == hash(trigger)


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        (Repeat(AtWatermark()), True),
        (AtWatermark(late=AfterCount(1)), True),
        (AtWatermark(early=AfterCount(1)), False),
        (Sequence(AtWatermark(), AfterCount(1)), True),
        (Sequence(AfterCount(1), AtWatermark()), False),
        (Until(AtWatermark(), AfterCount(1)), False),
        (Every("1 minute"), False),
        (AfterDelay("1 minute"), False),
        (Repeat(AtWatermark(always=True)), True),
        (AtWatermark(early=AfterDelay("1 minute"), always=True), False),
    ],
)
def test_triggers_that_wait_for_the_watermark(trigger: Trigger, *, expected: bool) -> None:
    assert waits_for_watermark(trigger) is expected


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        (Repeat(AtWatermark()), False),
        (AtWatermark(), True),
        (AtWatermark(late=AfterCount(1)), False),
        (RepeatUntil(AfterCount(1), AtWatermark()), True),
        (Sequence(AfterCount(1), Repeat(AfterCount(1))), False),
    ],
)
def test_triggers_that_end(trigger: Trigger, *, expected: bool) -> None:
    assert is_finite(trigger) is expected


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        (Repeat(AtWatermark()), False),
        (AtWatermark(early=AfterCount(1), late=EachEpoch()), True),
        (AtWatermark(early=EachEpoch()), True),
        (RepeatUntil(AfterCount(1), EachEpoch()), True),
        (Sequence(AfterCount(1), Repeat(EachEpoch())), True),
        (Sequence(AfterCount(1), Every("1 minute")), False),
    ],
)
def test_triggers_that_need_epochs(trigger: Trigger, *, expected: bool) -> None:
    assert has_epoch_trigger(trigger) is expected
