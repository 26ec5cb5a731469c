"""Panes out of the stream's table against the reference: with starts in between, any window, trigger and lateness."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cutover.definition import Accumulation, EachEpoch, Repeat, Sum
from cutover.definition.windows.kinds import SlidingWindows
from cutover.panes import reference
from cutover.panes.model import InputRow, Setting, WatermarkStep
from tests.property.panes.test_panes import ANY
from tests.support.drivers.pane_driver import stream_setting
from tests.support.pages.figures import FIGURES, scenario
from tests.support.suite.depth import depth

SETTINGS = st.sampled_from(Accumulation).flatmap(ANY.settings)


@depth(15, 300)
@example(
    setting=Setting(
        rows=(InputRow(event_time=-1, processing_time=-1, key="a", columns={"value": 3}),),
        measure=Sum("value"),
        window=SlidingWindows(size=1000, every=1000),
        trigger=Repeat(EachEpoch()),
        accumulation=Accumulation.DISCARDING,
        watermark=(WatermarkStep(processing_time=-1, watermark=0),),  # closes the window before the epoch ends
        allowed_lateness=0,
        epochs=(0,),
    ),
    starts={1, 2},
)
@given(setting=SETTINGS, starts=st.sets(st.integers(0, 40), max_size=5))
def test_panes_from_the_table_are_the_references_whenever_the_driver_starts_anew(
    setting: Setting, starts: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert reference.run(setting) == stream_setting(setting, tmp_path_factory.mktemp("log"), starts=starts)


@pytest.mark.parametrize("number", sorted(FIGURES))
def test_panes_of_a_figure_come_though_the_driver_starts_anew_before_each_epoch(
    number: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    setting = scenario(number).setting

    assert reference.run(setting) == stream_setting(setting, tmp_path_factory.mktemp("log"), starts=range(100))
