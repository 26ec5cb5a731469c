"""The 51 panes of figures 6 to 14 of The Dataflow Model: windows, values, order and kinds exactly, times within 3 s."""

import pytest

from cutover.cli.simulate import Runner
from cutover.panes import reference
from cutover.scenarios.compare import compare_outcome
from cutover.scenarios.reading.setting import Expected, Scenario
from cutover.scenarios.reading.texts import parse_scenario_time
from tests.support.pages.capabilities import note_feature
from tests.support.pages.figures import FIGURES, scenario

BATCH = {6, 10}


def expected(scenario: Scenario) -> Expected:
    assert scenario.expected is not None
    return scenario.expected


def test_figures_have_51_panes_of_which_all_but_those_of_batch_have_a_time() -> None:
    panes = {number: expected(scenario(number)).panes for number in FIGURES}

    assert sum(map(len, panes.values())) == 51
    assert {n for n, several in panes.items() if all(pane.processing_time is None for pane in several)} == BATCH
    assert all(pane.processing_time for n, several in panes.items() for pane in several if n not in BATCH)


def test_values_of_the_input_have_the_total_of_the_paper() -> None:
    assert sum(row.columns["value"] for row in scenario(6).setting.rows) == 51


@pytest.mark.parametrize("number", sorted(FIGURES))
def test_reference_emits_the_panes_of_a_figure_in_order(number: int) -> None:
    figure_scenario = scenario(number)

    assert compare_outcome(figure_scenario, expected(figure_scenario), reference.run(figure_scenario.setting)) == ()
    note_feature(f"figure {number:02} of The Dataflow Model", "reference")


@pytest.mark.parametrize("number", sorted(BATCH))
def test_batch_emits_the_panes_of_its_figures(number: int) -> None:
    figure_scenario = scenario(number)

    assert (
        compare_outcome(figure_scenario, expected(figure_scenario), reference.run_batch(figure_scenario.setting)) == ()
    )
    note_feature(f"figure {number:02} of The Dataflow Model", "batch")


@pytest.mark.parametrize("number", sorted(BATCH))
@pytest.mark.parametrize("run", [reference.run, reference.run_batch])
def test_batch_panes_fire_once_all_input_has_arrived(number: int, run: Runner) -> None:
    panes = run(scenario(number).setting).panes

    assert {pane.processing_time for pane in panes} == {parse_scenario_time("12:09:16", of="x").micros}
