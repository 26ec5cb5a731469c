"""When an epoch's rows are written by Spark, and what is held in memory behind an epoch."""

from typing import Any
from unittest.mock import Mock

import pytest

from cutover.streaming.microbatch import aggregate, spill
from cutover.streaming.microbatch.held_state import HeldState

LIMIT = 5


@pytest.mark.parametrize(("bound", "number", "collected"), [(5, 9, True), (6, 5, True), (6, 6, False)])
def test_only_rows_beyond_the_limit_are_left_to_spark(
    monkeypatch: pytest.MonkeyPatch, bound: int, number: int, *, collected: bool
) -> None:
    written = Mock()
    monkeypatch.setattr(aggregate, "pairs_bound", lambda *_: bound)
    monkeypatch.setattr(aggregate, "sum_counts", Mock())
    monkeypatch.setattr(spill, "sums", lambda _: (number, {}))
    monkeypatch.setattr(spill, "spill_partials", written)
    monkeypatch.setattr(spill, "partial_schema", Mock())
    monkeypatch.setattr(spill, "_collect_partials", lambda *_: "collected")
    passed: Any = Mock(slices=None)
    settings: Any = Mock(**{"stream.overflow_rows": LIMIT})

    found: Any = spill.gather(passed, Mock(), Mock(epoch=1), settings, uri="lake")

    assert (found == "collected", written.called) == (collected, not collected)
    assert passed.partials.unpersist.called is (bound > LIMIT)


def test_an_epoch_in_which_no_id_was_looked_up_leaves_the_ids_as_they_are() -> None:
    held: Any = Mock(_changelog=None)
    record, looked = Mock(watermark_after=7), Mock(new="new ones")

    HeldState.note_commit(held, record, None, Mock())
    assert held.ids.remember.called is False

    HeldState.note_commit(held, record, looked, Mock())
    held.ids.remember.assert_called_once_with("new ones", 7)
