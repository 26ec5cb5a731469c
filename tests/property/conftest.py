"""Profiles of Hypothesis, before any module asks which one is in force; each comparison runs twice."""

from collections.abc import Iterator

import pytest

from tests.support import twice
from tests.support.depth import register

register()


@pytest.fixture(autouse=True, scope="session")
def _every_comparison_runs_twice() -> Iterator[None]:
    with twice.comparisons():
        yield
