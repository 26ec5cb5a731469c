"""Kinds of rows of an epoch log, the columns that each fills, and the condition that selects some of them."""

from enum import StrEnum


class RowKind(StrEnum):
    """`_kind` of a row, by which the table is partitioned; columns: `epoch_log_schema`, those not named here are null.

    Every row has `_epoch`. A fold of the compactor may put the newest of several epochs there.
    """

    PARTIAL = "partial"  # the partial shape, `_class` accepted: one row a window and key
    LEDGER = "ledger"  # the partial shape, any other `_class`: one row a record (and window) that did not count
    EPOCH = "epoch"  # `_record`: the `EpochRecord` as JSON; one row an epoch
    PANE = "pane"  # window, key, measures, `_record`: what came out; `_class`: its kind, or what was dropped
    HELD = "held"  # window, key, states, `_record`: what a trigger holds; `_class`: `held` or `gone`
    IDS = "ids"  # `window_start` (an event minute) and `_ids`: those that the epoch was the first to show; or a mark
    ATTEMPT = "data"  # `_record`: the `Attempt`, where data and offsets are two commits


COUNTED = (RowKind.PARTIAL, RowKind.LEDGER)
"""Rows whose `_n` adds up to every record that was read, in each of its windows."""


def kind_sql(*kinds: RowKind) -> str:
    """Return the condition that a row has one of some kinds."""
    return f"_kind IN ({', '.join(repr(str(kind)) for kind in kinds)})"
