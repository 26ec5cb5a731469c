"""Empty versions or definitions never replace another one unnoticed, whatever a change note declares."""

import pytest

from cutover.errors import DefinitionError
from cutover.streaming.replacement.compare import StreamComparison
from cutover.streaming.replacement.replay import Agreed, reject_others

NOTHING = StreamComparison(
    serving="flights stream-0",
    candidate="flights_by_day stream-0",
    epochs=(4, 4),
    beyond=0,
    rows=120,
    late=(0, 0),
    otherwise=0,
    counts={},
    declared={"missing": 120},
    classes={},
    examples=(),
    is_emptied=True,
)


def test_rows_removed_by_a_note_must_not_be_all_rows() -> None:
    with pytest.raises(DefinitionError, match=r"the 120 of flights stream-0, got none") as caught:
        reject_others(NOTHING, Agreed(), "cutover swap flights_by_day")

    assert "`--uncompared`" in str(caught.value)
