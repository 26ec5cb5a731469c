"""Classic batch: one pane per window and key once all input has arrived, for any trigger. Times in seconds."""

import pytest

from cutover.definition import Accumulation, AfterCount, Repeat, Sessions
from cutover.panes import reference
from cutover.panes.model import Watermark
from tests.support.drivers.settings_of_panes import Handling, format_panes, setting, steps

ROWS = "20 1 1 a\n3 2 2 b\n10 3 4 a\n0 4 8 a"


def test_sessions_are_complete_in_any_arrival_order() -> None:
    handling = Handling(
        window=Sessions("10 seconds"),
        trigger=Repeat(AfterCount(3)),
        accumulation=Accumulation.RETRACTING,
        allowed=0,
        watermark=steps((2, 100)),
    )

    assert format_panes(reference.run_batch(setting(ROWS, handling))) == [
        "4: 3..13 b 2 on_time",
        "4: 0..30 a 13 on_time",
    ]


@pytest.mark.parametrize(
    ("watermark", "at"), [((), 4), (steps((9, 30)), 4), (steps((9, 30), (10, None)), 10), (steps((2, None)), 4)]
)
def test_panes_fire_once_the_watermark_reports_all_input(watermark: Watermark, at: int) -> None:
    pane_texts = format_panes(reference.run_batch(setting("1 4 1", Handling(watermark=watermark))))

    assert pane_texts == [f"{at}: 0..10 1 on_time"]


def test_no_rows_give_no_panes() -> None:
    assert reference.run_batch(setting("", Handling())).panes == ()
