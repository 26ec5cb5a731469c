"""The 51 panes of figures 6 to 14 of The Dataflow Model: windows, values, order and kinds exactly, times within 3 s."""

import pytest

from cutover.panes import batch, reference
from cutover.panes.model import Outcome
from cutover.scenarios.runners import Runner
from cutover.scenarios.show import to_json
from cutover.scenarios.times import read
from tests.support.capabilities import shown
from tests.support.figures import FIGURES, scenario

SECOND = 1_000_000
ORDER_ONLY = {6, 10}
"""Figures whose drawn times follow the slope of a simulated watermark."""


def panes(number: int, outcome: Outcome) -> list[tuple[str, str, int, str]]:
    found = to_json(scenario(number), "reference", outcome)["panes"]
    return [(pane["window_start"], pane["window_end"], pane["value"], pane["kind"]) for pane in found]


def drawn(number: int) -> list[tuple[str, str, int, str]]:
    return [(start, end, value, kind) for start, end, _, value, kind in FIGURES[number].panes]


def test_figures_have_51_panes() -> None:
    assert sum(len(figure.panes) for figure in FIGURES.values()) == 51


@pytest.mark.parametrize("number", sorted(FIGURES))
def test_reference_emits_the_panes_of_a_figure_in_order(number: int) -> None:
    assert drawn(number) == panes(number, reference.run(scenario(number).setting))
    shown(f"figure {number:02} of The Dataflow Model", "reference")


@pytest.mark.parametrize("number", sorted(FIGURES.keys() - ORDER_ONLY))
def test_panes_come_when_they_are_drawn(number: int) -> None:
    found = reference.run(scenario(number).setting).panes
    times = [read(at, of="drawn").micros for _, _, at, _, _ in FIGURES[number].panes]

    assert [
        (at, pane) for at, pane in zip(times, found, strict=True) if abs(at - pane.processing_time) > 3 * SECOND
    ] == []


@pytest.mark.parametrize("number", sorted(ORDER_ONLY))
def test_batch_emits_the_panes_of_its_figures(number: int) -> None:
    assert drawn(number) == panes(number, batch.run(scenario(number).setting))
    shown(f"figure {number:02} of The Dataflow Model", "batch")


@pytest.mark.parametrize("number", sorted(ORDER_ONLY))
@pytest.mark.parametrize("run", [reference.run, batch.run])
def test_batch_panes_come_once_the_watermark_says_that_all_input_is_in(number: int, run: Runner) -> None:
    panes = run(scenario(number).setting).panes

    assert {pane.processing_time for pane in panes} == {read("12:10:00", of="x").micros}
