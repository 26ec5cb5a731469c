"""Comparison of shown with printed output: any number matches a number, `...` any text, and order matters."""

import pytest

from cutover.infra.drills.perform import find_missing_line

PRINTED = """flights  OK    epoch 331, 0 unread, driver RUNNING
late share  0.01 % in the newest 42 epochs
ticket  docs/runbooks/NoInput.md: nothing was sent for 12 min 5 s
"""


@pytest.mark.parametrize(
    "expected",
    [
        (),
        ("flights  OK  epoch 52, 0 unread, driver RUNNING",),
        ("flights  ...  driver RUNNING", "ticket  docs/runbooks/NoInput.md: nothing was sent for 3 min 59 s"),
        ("nothing was sent for ...",),
        ("late share  0... in the newest 9 epochs",),
    ],
)
def test_lines_printed_in_order_are_all_found(expected: tuple[str, ...]) -> None:
    assert find_missing_line(expected, PRINTED) is None


@pytest.mark.parametrize(
    ("expected", "missing"),
    [
        (("flights  STOPPED  epoch 52",), "flights  STOPPED  epoch 52"),
        (("ticket ...", "flights  OK"), "flights  OK"),  # the other way round
        (("flights  OK", "flights  OK"), "flights  OK"),  # once is not twice
        (("epoch none",), "epoch none"),
        (("nothing was sent (for) 12 min",), "nothing was sent (for) 12 min"),  # not a pattern
    ],
)
def test_first_line_that_was_not_printed_is_named(expected: tuple[str, ...], missing: str) -> None:
    assert find_missing_line(expected, PRINTED) == missing
