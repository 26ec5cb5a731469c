"""View `epochs`: one row per epoch, for queries in SQL."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from cutover.lake.epochs.epoch_log import EpochRecord

_TIME = pa.timestamp("us", tz="UTC")
_OFFSETS = pa.map_(pa.int32(), pa.int64())
_COUNTS = pa.map_(pa.string(), pa.int64())
COLUMNS: Mapping[str, pa.DataType] = {
    "epoch": pa.int64(),
    "processing_time": pa.string(),
    "records": pa.int64(),  # read
    "rows": pa.int64(),  # partial rows that it added to the epoch log
    "start_offsets": _OFFSETS,  # partition -> first offset that was read
    "end_offsets": _OFFSETS,  # partition -> next offset: the epoch's cut
    "counts": _COUNTS,  # class -> (record, window) pairs
    "watermark_before": _TIME,  # judged the epoch's rows
    "watermark_after": _TIME,
    "idle": pa.list_(pa.int32()),  # partitions that held the watermark no longer
    "lag": pa.int64(),  # records still unread when it was planned
    "seconds": pa.float64(),
    "tick": pa.bool_(),  # an epoch without data
    "final": pa.bool_(),
    "conflicts": pa.int64(),
    "dimensions": _COUNTS,  # lookup -> version of its table
    "run_id": pa.string(),
}
_NAMED = {"start_offsets": "start", "end_offsets": "end"}


def epoch_rows(records: Sequence[EpochRecord]) -> pa.Table:
    """Return a table with the columns of `COLUMNS`, one row per record, in the order of the records."""
    arrays = [
        pa.array([_plain(getattr(record, _NAMED.get(name, name))) for record in records], kind)
        for name, kind in COLUMNS.items()
    ]
    return pa.Table.from_arrays(arrays, names=list(COLUMNS))


def _plain(value: object) -> object:
    """Convert a mapping to its sorted pairs, as Arrow requires; other values are unchanged."""
    if isinstance(value, Mapping):
        return sorted(value.items())
    return list(value) if isinstance(value, tuple) else value
