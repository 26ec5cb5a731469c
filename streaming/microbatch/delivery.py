"""Commit of an epoch's data and offsets: together, or one before the other where the definition requires it.

`at_least_once` writes the data first: a driver that dies in between leaves them, and the next one reads their offsets
again. `at_most_once` records the offsets first: their data are lost if the driver dies before it has written them.
"""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cutover.definition.model.pipeline import Delivery
from cutover.lake.control.losses import Starts
from cutover.lake.epochs.delivery import AT_LEAST_ONCE, EXACTLY_ONCE, Attempt
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.tables.schemas import RowKind
from cutover.probe import Probe
from cutover.records.classes import Class
from cutover.streaming.microbatch.spill import EpochPartials
from cutover.streaming.sink import files
from cutover.streaming.sink.committer import Committer


def table_rows(partials: pa.Table, epoch: int, schema: pa.Schema) -> pa.Table:
    """Return an epoch's partial aggregates and ledger as rows of the epoch log.

    Args:
        partials: One row for each (class, window, key), or record that did not count; column `_class` says which.
        epoch: The number of the epoch.
        schema: Of the epoch log; columns that `partials` lacks are null.
    """
    kinds = [RowKind.PARTIAL if kind == Class.ACCEPTED else RowKind.LEDGER for kind in partials["_class"].to_pylist()]
    data = partials.append_column("_kind", pa.array(kinds, pa.string()))
    data = data.append_column("_epoch", pa.array([epoch] * len(kinds), pa.int64()))
    for field in schema:
        if field.name not in data.column_names:
            data = data.append_column(field.name, pa.nulls(len(kinds), field.type))
    return data.select(schema.names).cast(schema)


def deliver(
    committer: Committer, rows: pa.Table, epoch_partials: EpochPartials, record: EpochRecord, probe: Probe
) -> None:
    """Commit an epoch as its record says: once, or in two commits with the point `epoch.apart` between them.

    Args:
        committer: The driver's.
        rows: All rows of the epoch that the driver holds, without its record.
        epoch_partials: Where its partial rows are.
        record: The epoch's.
        probe: Called at `epoch.apart`.

    Raises:
        LakeError: As `Committer.commit`.
    """
    actions = epoch_partials.spilled_files or ()
    if record.delivery == EXACTLY_ONCE or record.tick:
        committer.commit(rows, record, actions)
        return
    data, nothing = pa.concat_tables([rows, _attempt(rows, record)]), rows.slice(0, 0)
    if record.delivery == AT_LEAST_ONCE:
        committer.add(data, record.epoch, actions)
        probe("epoch.apart", record.epoch)
        committer.commit(nothing, record)
    else:
        committer.commit(nothing, record)
        probe("epoch.apart", record.epoch)
        committer.add(data, record.epoch, actions)


def windows_of(epoch_partials: EpochPartials, uri: str, mode: Delivery) -> Starts | None:
    """Return the first start and the last end, microseconds, of an epoch's partial rows.

    None if no row has a window, and where it is never needed: a commit that has data and offsets loses no range.
    """
    if mode == EXACTLY_ONCE:
        return None
    spans_of_parts = [_span(table) for table in _parts(epoch_partials, uri)]
    spans = [span for span in spans_of_parts if span is not None]
    return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None


def _attempt(rows: pa.Table, record: EpochRecord) -> pa.Table:
    """One row in the epoch log's schema, with run, offsets, counts and windows as JSON."""
    attempt = Attempt(
        epoch=record.epoch,
        run_id=record.run_id,
        start=record.start,
        end=record.end,
        counts=record.counts,
        windows=record.windows,
    )
    return pa.Table.from_pylist(
        [{"_kind": RowKind.ATTEMPT, "_epoch": record.epoch, "_record": attempt.to_json()}], schema=rows.schema
    )


def _parts(epoch_partials: EpochPartials, uri: str) -> Iterable[pa.Table]:
    if epoch_partials.spilled_files is None:
        return [epoch_partials.rows]
    system, root = files.resolve_folder(uri)
    columns = ["window_start", "window_end"]
    return (
        pq.read_table(f"{root}/{action.path}", filesystem=system, columns=columns)
        for action in epoch_partials.spilled_files
    )


def _span(table: pa.Table) -> Starts | None:
    start, end = pc.min(table["window_start"]).as_py(), pc.max(table["window_end"]).as_py()
    if start is None or end is None:
        return None
    return pc.min(table["window_start"]).cast(pa.int64()).as_py(), pc.max(table["window_end"]).cast(pa.int64()).as_py()
