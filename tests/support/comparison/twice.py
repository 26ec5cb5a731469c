"""Comparisons of a test run twice: the same tables at the same cut must give the same report, to the byte.

All of `tests/property` do, where every kind of window, join and measure is drawn; of the written cases those of the
modules that ask for the fixture `comparisons_twice` of `tests/conftest.py`.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cutover.reconcile.judge import judge as judge_sides

Judge = Callable[..., Any]


@contextmanager
def comparisons() -> Iterator[None]:
    """Let each comparison run twice, and fail the test whose second one says anything else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cutover.reconcile.run.judge", repeated(judge_sides))
        yield


def repeated(judge: Judge) -> Judge:
    """Return a judgement that is made twice; only ids and times, which it has none of yet, may differ.

    Raises:
        AssertionError: The second one differs.
    """

    def both(*asked: Any) -> Any:
        (first, unjudged), (second, again) = judge(*asked), judge(*asked)
        assert again == unjudged
        assert json.dumps(second.to_json(), indent=1) == json.dumps(first.to_json(), indent=1)
        return first, unjudged

    return both
