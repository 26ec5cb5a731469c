"""What holds for every test with real servers: each comparison runs twice."""

from collections.abc import Iterator

import pytest

from tests.support import twice


@pytest.fixture(autouse=True, scope="session")
def _every_comparison_runs_twice() -> Iterator[None]:
    with twice.comparisons():
        yield
