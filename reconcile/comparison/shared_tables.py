"""Tables of one comparison that several modules use: their columns, and the modules that create and read them.

They exist in the comparison's DuckDB connection and are dropped with it. A table used by one module has no entry.
"""

from enum import StrEnum


class SharedTable(StrEnum):
    """Names of the tables. `key` means the columns of the pipeline's key; times are `TIMESTAMPTZ`."""

    STREAM_LOG = "stream_log"
    """Partial rows and ledger up to the cut. Made by `sides`; read by `duplicates`, `ledger`, `explain`."""

    WINDOWS = "windows"
    """`window_start`, `window_end` of every window either side has. Made by `sides`; read there and by `dimension`."""

    EXPECTED = "batch_side"
    """Batch's rows: window, key, measures, `_n`; only compared windows. Made by `sides`; read by `compare`."""

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
    """Return the name of the stream's side after `number` further classes; made by `sides`, read by most modules."""
    return f"stage_{number}"
