"""What a pass has aggregated, as rows of the epoch log's schema."""

import pyarrow as pa

from cutover.records.classes import Class


def table_rows(partials: pa.Table, epoch: int, schema: pa.Schema) -> pa.Table:
    """Return an epoch's partial aggregates and ledger as rows of the epoch log.

    Args:
        partials: One row for each (class, window, key), or record that did not count; column `_class` says which.
        epoch: The number of the epoch.
        schema: Of the epoch log; columns that `partials` lacks are null.
    """
    kinds = ["partial" if kind == Class.ACCEPTED else "ledger" for kind in partials["_class"].to_pylist()]
    data = partials.append_column("_kind", pa.array(kinds, pa.string()))
    data = data.append_column("_epoch", pa.array([epoch] * len(kinds), pa.int64()))
    for field in schema:
        if field.name not in data.column_names:
            data = data.append_column(field.name, pa.nulls(len(kinds), field.type))
    return data.select(schema.names).cast(schema)
