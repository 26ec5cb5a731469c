"""Which tests `make test` runs: of the slow kinds those that are marked `quick`."""

import pytest

from tests.support.suite.tiers import is_long


@pytest.mark.parametrize(
    ("test", "quick", "expected"),
    [
        ("tests/unit/test_cli.py::test_help", None, False),
        ("tests/integration/batch/test_run.py::test_run", None, True),
        ("tests/integration/batch/test_run.py::test_run", pytest.mark.quick.mark, False),
        ("tests/property/test_fold.py::test_fold[sessions]", pytest.mark.quick("sessions").mark, False),
        ("tests/property/test_fold.py::test_fold[fixed]", pytest.mark.quick("sessions").mark, True),
        ("tests/property/test_fold.py::test_fold[fixed-full merge]", pytest.mark.quick("merge").mark, True),
        ("tests/property/test_fold.py::test_merge[merge-full]", pytest.mark.quick("merge").mark, False),
        ("tests/property/test_fold.py::test_merge[full]", pytest.mark.quick("merge").mark, True),
    ],
)
def test_a_test_of_a_slow_kind_is_long_unless_it_is_marked(
    test: str, quick: pytest.Mark | None, expected: bool
) -> None:
    assert is_long(test, quick) is expected
