"""Tests marked `long`: they run by `make test-long` and each night, not with the other tests.

`make test` has to answer in minutes. Of the kinds of tests that start servers or draw many examples it runs those that
are marked `quick`: of each feature the one by which a reader would know that it works, and those that decide verdicts
(docs/tests.md). A marker with arguments selects parameters: `@pytest.mark.quick("sessions")` runs the examples that
have this id for one of their parameters. Faults are marked in their catalogue. In the other folders a test or a
parameter is marked `long` itself.
"""

from collections.abc import Iterable

import pytest

SLOW = ("tests/integration/", "tests/property/", "tests/e2e/")
"""Folders of tests that are long unless they are marked `quick`."""


def is_long(test: str, quick: pytest.Mark | None) -> bool:
    """Return whether a test is one of the long ones, by its id and its marker `quick`."""
    if not test.startswith(SLOW):
        return False
    if quick is None or not quick.args:
        return quick is None
    parameters = test.partition("[")[2].removesuffix("]")
    return not any(f"-{value}-" in f"-{parameters}-" for value in quick.args)


def mark(items: Iterable[pytest.Item]) -> None:
    """Mark the long tests, before pytest deselects those that are not requested."""
    for item in items:
        if is_long(item.nodeid, item.get_closest_marker("quick")):
            item.add_marker(pytest.mark.long)
