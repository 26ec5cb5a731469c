"""Costs as text."""

import pytest

from cutover.reconcile.cost import fold
from cutover.reconcile.result.report import (
    Agreement,
    amount_text,
    describe_cost_lines,
    describe_price,
    nines_text,
    size_text,
)
from cutover.reconcile.result.text import THIN
from tests.unit.cost.test_fold import batch, epoch, make_cost


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (1_234_567, "1.23 MB"), (999_999, "1.00 MB"), (None, "unknown")],
)
def test_sizes_have_the_unit_that_fits(value: int | None, expected: str) -> None:
    assert size_text(value) == expected.replace(" ", THIN if value is not None else " ")


@pytest.mark.parametrize(("nines", "expected"), [(1, "90"), (2, "99"), (3, "99.9"), (6, "99.9999"), (9, "99.9999999")])
def test_nines_are_percentages(nines: int, expected: str) -> None:
    assert nines_text(nines) == f"{expected}{THIN}%"


def test_unknown_cost_is_shown_as_unknown() -> None:
    (_, streaming), (_, batch) = describe_cost_lines(fold([epoch(0, None)], []))

    assert amount_text(None) == "unknown"
    assert streaming.startswith("1 run, unknown core-seconds, read unknown, wrote unknown, delay 99")
    assert batch == "no run"


def test_gate_shows_the_cost_of_batch_or_that_it_is_unknown() -> None:
    epochs, runs = [epoch(0, make_cost(2.5))], [batch(0, make_cost(30.0), cut=10, scanned=10)]
    agreement = Agreement(rows=1000, different=4)

    price = describe_price("sales", fold(epochs, runs, agreement))
    spoilt = describe_price("sales", fold(epochs, [batch(0, None, cut=10, scanned=10)], agreement))

    assert price.startswith("Batch cost 30 core-seconds, the stream 2.5; the paths differ in 4 of 1,000 rows (")
    assert "Batch cost unknown core-seconds" in spoilt
    assert "not known yet" in describe_price("sales", None)
    assert "not known yet" in describe_price("sales", fold(epochs, runs))
