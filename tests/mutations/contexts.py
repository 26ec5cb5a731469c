"""Plugin of pytest that gives coverage the test file that runs now."""

from collections.abc import Iterator

import coverage
import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note the lines that a test and its fixtures run under the name of its file."""
    measured = coverage.Coverage.current()
    if measured is not None:
        measured.switch_context(item.nodeid.partition("::")[0])
    return (yield)
