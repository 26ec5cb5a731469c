"""Numbers of conditions as people read them."""

from dataclasses import asdict
from typing import Any

import pytest

from cutover.reconcile.gate.criteria import describe_number, describe_threshold
from cutover.reconcile.gate.decide import Condition
from cutover.reconcile.result.text import THIN


@pytest.mark.parametrize(
    ("fields", "number", "threshold"),
    [
        ({"number": 2, "threshold": 24, "sense": "at least", "unit": "runs"}, "2 runs", "at least 24 runs"),
        (
            {"number": 0.0439, "threshold": 0.05, "unit": "of the blocks"},
            f"4.39{THIN}% of the blocks",
            f"at most 5{THIN}% of the blocks",
        ),
        ({"number": 3_600.0, "threshold": 86_400.0, "unit": "seconds"}, f"1{THIN}h", f"at most 1{THIN}d"),
        ({"number": None, "threshold": None}, "-", "-"),
        (
            {"number": 1, "threshold": 0, "unit": "runs beyond policy"},
            "1 run beyond policy",
            "at most 0 runs beyond policy",
        ),
        ({"number": 12_345, "threshold": 0}, "12,345", "at most 0"),
    ],
)
def test_number_and_threshold_are_written_with_their_unit(fields: dict[str, Any], number: str, threshold: str) -> None:
    condition = asdict(Condition(name="x", is_met=True, detail="y", **fields))

    assert (describe_number(condition), describe_threshold(condition)) == (number, threshold)
