"""Types that are numbers, for which a tolerance is allowed."""

import pytest

from cutover.reconcile.comparison.column_types import is_number


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("BIGINT", True), ("DECIMAL(9,2)", True), ("DECIMAL(9,2)[]", False), ("TIMESTAMP[]", False), ("VARCHAR", False)],
)
def test_a_list_of_numbers_is_no_number(kind: str, *, expected: bool) -> None:
    assert is_number(kind) is expected
