"""Whether the rows of an epoch log up to an epoch can still be told from later ones."""

from cutover.lake import delivery, tables
from cutover.lake.epochs import EpochLog

_COUNTED = "SELECT _class, sum(_n)::BIGINT FROM log WHERE _kind IN ('partial', 'ledger') AND _epoch <= ? GROUP BY 1"


def folded_across(epoch_log: EpochLog, epoch: int) -> list[str]:
    """Return the classes whose rows up to an epoch do not add up to what was written of its epochs; none: all do.

    A fold gives rows of several epochs the number of the last one: what lies before that is seen only as a whole.
    """
    records = [record for record in epoch_log.records() if record.epoch <= epoch]
    expected: dict[str, int] = {}
    for counts in delivery.effective(records, delivery.attempts(epoch_log, records)).values():
        for kind, pairs in counts.items():
            expected[kind] = expected.get(kind, 0) + pairs
    with tables.connect() as connection:
        tables.bind(connection, "log", epoch_log.table)
        with tables.naming(epoch_log.table):
            found = dict(connection.execute(_COUNTED, [epoch]).fetchall())
    return [kind for kind, pairs in expected.items() if int(found.get(kind) or 0) != pairs]
