"""State of a trigger, encoded as JSON and loaded again: the loaded machine behaves like the encoded one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from cutover.definition.model.triggers import Once, Trigger
from cutover.panes.machine import Ended, Machine, TriggerMoment, begin, dump_machine, load_machine

CHOICES: list[Once] = [
    AfterCount(2),
    Every("7 milliseconds"),
    AfterDelay("2 milliseconds"),
    EachEpoch(),
    AtWatermark(),
    AtWatermark(always=True),
]
ONCE = st.sampled_from(CHOICES)
TRIGGERS: st.SearchStrategy[Trigger] = st.one_of(
    ONCE,
    ONCE.map(Repeat),
    st.just(AtWatermark(early=Every("3 milliseconds"), late=AfterCount(1), always=True)),
    st.just(Until(AfterCount(3), AfterDelay("3 milliseconds"))),
    st.just(RepeatUntil(EachEpoch(), AtWatermark())),
    st.just(Until(AfterCount(1), Every("5 milliseconds"))),
    st.builds(Sequence, ONCE, ONCE, ONCE.map(Repeat)),
)
STEPS = st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=8)


def after(machine: Machine | Ended, steps: list[tuple[bool, bool, bool]]) -> tuple[Machine | Ended, list[bool]]:
    fired = []
    has_passed = False
    for now, (comes, is_past_end, ends) in enumerate(steps):
        if isinstance(machine, Ended):
            break
        machine = machine.with_rows(now * 1_000, 1) if comes else machine
        moment = TriggerMoment(
            now=now * 1_000,
            is_past_end=is_past_end,
            passes_end=is_past_end and not has_passed,
            is_complete=True,
            epoch_ends=ends,
        )
        has_passed = is_past_end
        fired.append(machine.is_ready(moment))
        machine = machine.fire_at(moment) if fired[-1] else machine
    return machine, fired


@given(trigger=TRIGGERS, steps=STEPS, more=STEPS)
def test_loaded_machine_behaves_like_the_encoded_one(
    trigger: Trigger, steps: list[tuple[bool, bool, bool]], more: list[tuple[bool, bool, bool]]
) -> None:
    machine, _ = after(begin(trigger), steps)
    loaded = load_machine(trigger, json.loads(json.dumps(dump_machine(machine))))

    assert machine == loaded
    assert after(machine, more) == after(loaded, more)


@pytest.mark.parametrize("ended", Ended)
def test_ended_trigger_keeps_its_ending(ended: Ended) -> None:
    assert load_machine(Repeat(EachEpoch()), dump_machine(ended)) is ended
