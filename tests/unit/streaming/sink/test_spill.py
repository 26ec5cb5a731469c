"""Epochs whose rows are written by Spark, and the state kept in memory after an epoch."""

from typing import Any
from unittest.mock import Mock

import pytest

from cutover.streaming.microbatch import aggregate
from cutover.streaming.microbatch.engine import HeldState

LIMIT = 5


@pytest.mark.parametrize(("upper_bound", "number", "collected"), [(5, 9, True), (6, 5, True), (6, 6, False)])
def test_only_rows_beyond_the_limit_are_left_to_spark(
    monkeypatch: pytest.MonkeyPatch, upper_bound: int, number: int, *, collected: bool
) -> None:
    spilled = Mock()
    monkeypatch.setattr(aggregate, "pairs_bound", lambda *_: upper_bound)
    monkeypatch.setattr(aggregate, "sum_counts", Mock())
    monkeypatch.setattr(aggregate, "sums", lambda _: (number, {}))
    monkeypatch.setattr(aggregate, "spill_partials", spilled)
    monkeypatch.setattr(aggregate, "partial_schema", Mock())
    monkeypatch.setattr(aggregate, "_collect_partials", lambda *_: "collected")
    batch_pass: Any = Mock(slices=None)
    lake: Any = Mock(**{"settings.stream.overflow_rows": LIMIT})

    partials: Any = aggregate.run_aggregation(batch_pass, lake, Mock(epoch=1), uri="lake")

    assert (partials == "collected", spilled.called) == (collected, not collected)
    assert batch_pass.partials.unpersist.called is (upper_bound > LIMIT)


def test_an_epoch_without_id_lookups_keeps_the_ids() -> None:
    state: Any = Mock(_changelog=None)
    record, lookup = Mock(watermark_after=7), Mock(new="new ones")

    HeldState.note_commit(state, record, None, Mock())
    assert state.ids.remember.called is False

    HeldState.note_commit(state, record, lookup, Mock())
    state.ids.remember.assert_called_once_with("new ones", 7)
