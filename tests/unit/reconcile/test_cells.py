"""Values of cells compare as the diff's own SQL does."""

import pytest

from cutover.reconcile.attribution.cells import equal
from cutover.reconcile.comparison.layout import FLOAT_RELATIVE, Value

NAN, INFINITE = float("nan"), float("inf")
FLOAT = Value(name="v", exact=False, relative=FLOAT_RELATIVE)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1.0, 1.0 + 1e-10, True),
        (1.0, 1.0 + 1e-8, False),
        (0.0, -0.0, True),
        (NAN, NAN, True),
        (NAN, 1.0, False),
        (INFINITE, INFINITE, True),
        (INFINITE, -INFINITE, False),
        (INFINITE, 1.0, False),
        (None, None, True),
        (None, NAN, False),
    ],
)
def test_floats(left: float | None, right: float | None, *, same: bool) -> None:
    assert equal(FLOAT, left, right) is same
    assert equal(FLOAT, right, left) is same
