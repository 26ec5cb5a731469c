"""Whether the rows of an epoch log up to an epoch can still be told from later ones."""

from collections.abc import Sequence

from cutover.engine import queries
from cutover.lake.epochs import delivery
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.epochs.row_kinds import COUNTED
from cutover.lake.tables import delta

_COUNTED = "SELECT _class, sum(_n)::BIGINT FROM log WHERE _epoch <= ? GROUP BY 1"


def find_folded_classes(epoch_log: EpochLog, records: Sequence[EpochRecord]) -> list[str]:
    """Return the classes whose rows do not add up to what was written of the first epochs; none: all do.

    A fold gives rows of several epochs the number of the last one: what lies before that is seen only as a whole.

    Args:
        epoch_log: The log.
        records: All of its records up to an epoch, at least one.
    """
    expected: dict[str, int] = {}
    for counts in delivery.effective(records, delivery.attempts(epoch_log, records)).values():
        for kind, pairs in counts.items():
            expected[kind] = expected.get(kind, 0) + pairs
    with queries.connect() as connection:
        delta.bind(connection, "log", epoch_log.table, kinds=COUNTED)
        with delta.naming(epoch_log.table):
            found = dict(connection.execute(_COUNTED, [records[-1].epoch]).fetchall())
    return [kind for kind, pairs in expected.items() if int(found.get(kind) or 0) != pairs]
