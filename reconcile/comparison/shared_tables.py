"""Tables of one comparison that several modules use: their columns, and the module that creates each.

They exist in the comparison's DuckDB connection and are dropped with it. A table used by one module has no entry. A
search for its constant finds the modules that read a table.
"""

from enum import StrEnum


class SharedTable(StrEnum):
    """Names of the tables. `key` means the columns of the pipeline's key; times are `TIMESTAMPTZ`."""

    STREAM_LOG = "stream_log"
    """Partial rows and ledger up to the cut. Created by `sides`."""

    WINDOWS = "windows"
    """`window_start`, `window_end` of every window of either side. Created by `sides`."""

    EXPECTED = "batch_side"
    """Batch's rows: window, key, measures, `_n`; only compared windows. Created by `sides`."""

    TOUCHED = "touched"
    """Cells in which some stage differs, with the values of each, `_explained` and `_cause`. Created by `causes`."""

    LEDGER = "ledger"
    """Records up to the cut that did not count: class, window, key, `_epoch`, `_partition`, `_offset`, `reason`.
    Created by `attribution`."""

    DOUBTFUL = "doubtful"
    """Window, key and `why` of cells whose ledger does not hold. Created by `attribution`; `proof` adds rows."""

    EPOCH_WATERMARKS = "epoch_watermarks"
    """`epoch`, `watermark` (microseconds) before it. Created by `attribution`."""

    EPOCH_REACHED = "epoch_reached"
    """`__epoch`, the event time reached before it, `__before`, and before the first and the last epoch that accepted
    rows with its number may be of: `__first`, `__last`. Created by `settlement`."""


def stage(number: int) -> str:
    """Return the name of the stream's side after `number` further classes; `sides` creates it."""
    return f"stage_{number}"
