"""Comparisons of a test run twice: the same tables at the same cut must give the same finding, to the byte.

All of `tests/property` do, where every kind of window, join and measure is drawn; of the written cases those of the
modules that use the fixture `comparisons_twice` of `tests/conftest.py`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cutover.reconcile.compare import compare_at_cut
from cutover.reconcile.result.report import ComparisonOutcome

Compare = Callable[..., ComparisonOutcome]


@contextmanager
def comparisons() -> Iterator[None]:
    """Run each comparison twice, and fail the test whose second comparison differs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cutover.reconcile.run.compare_at_cut", run_twice(compare_at_cut))
        yield


def run_twice(compare: Compare) -> Compare:
    """Return a comparison that runs twice.

    Raises:
        AssertionError: The second run found something else.
    """

    def both(*arguments: Any) -> ComparisonOutcome:
        outcome, second = compare(*arguments), compare(*arguments)
        assert second.finding.to_bytes() == outcome.finding.to_bytes()
        assert second == outcome
        return outcome

    return both
