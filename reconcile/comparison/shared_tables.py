"""The tables of one comparison that more than one module knows: who makes each, who reads it, what it holds.

They live in the comparison's own DuckDB connection and end with it. A table that only its maker reads has no entry.
"""

from enum import StrEnum


class SharedTable(StrEnum):
    """A table by its name. `key` stands for the columns of the pipeline's key; times are `TIMESTAMPTZ`."""

    STREAM_LOG = "stream_log"
    """Partial rows and ledger up to the cut. Made by `sides`; read by `duplicates`, `ledger`, `explain`."""

    WINDOWS = "windows"
    """`window_start`, `window_end` of every window either side has. Made by `sides`; read there and by `dimension`."""

    EXPECTED = "batch_side"
    """What batch computed: window, key, measures, `_n`; judged windows alone. Made by `sides`; read by `compare`."""

    TOUCHED = "touched"
    """Cells in which some stage differs, with the values of each, `_explained` and `_cause`. Made by `causes`; read by
    `cells`, `judgement`, `series`, `compare`."""

    LEDGER = "ledger"
    """Records up to the cut that did not count: class, window, key, `_epoch`, `_partition`, `_offset`, `reason`. Made
    by `ledger`; read by `causes`, `proof`, `explain`, `series`, `compare`."""

    DOUBTFUL = "doubtful"
    """Window, key and `why` of cells whose ledger does not hold. Made by `ledger`; `proof` adds; read by `causes`."""

    EPOCH_WATERMARKS = "epoch_watermarks"
    """`epoch`, `watermark` (microseconds) before it. Made by `ledger`; read by `explain`, `series`."""

    EPOCH_REACHED = "epoch_reached"
    """`__epoch`, the event time reached before it, `__before`, and before the first and the last epoch that accepted
    rows with its number may be of: `__first`, `__last`. Made by `ages`; read by `settlement`, `early.answers`."""


def stage(number: int) -> str:
    """Return the name of the stream's side after `number` further classes; made by `sides`, read all over."""
    return f"stage_{number}"
