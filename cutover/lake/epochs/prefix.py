"""Prefixes of an epoch log: rows up to an epoch, unless a fold has merged them with rows of later epochs."""

from collections.abc import Sequence

from cutover.engine import queries
from cutover.lake.epochs import delivery
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.epochs.row_kinds import COUNTED
from cutover.lake.tables import delta

_COUNTED = "SELECT _class, sum(_n)::BIGINT FROM log WHERE _epoch <= ? GROUP BY 1"


def find_folded_classes(epoch_log: EpochLog, records: Sequence[EpochRecord]) -> list[str]:
    """Find the classes whose rows do not sum to the counts of the first epochs, because a fold merged them.

    A fold gives rows of several epochs the number of the last one, so that earlier epochs cannot be separated.

    Args:
        epoch_log: The log.
        records: All of its records up to an epoch, at least one.
    """
    expected: dict[str, int] = {}
    for counts in delivery.sum_effective_counts(records, delivery.read_attempts(epoch_log, records)).values():
        for kind, pairs in counts.items():
            expected[kind] = expected.get(kind, 0) + pairs
    with queries.connect() as connection:
        delta.bind(connection, "log", epoch_log.table, kinds=COUNTED)
        with delta.naming(epoch_log.table):
            counts_by_class = dict(connection.execute(_COUNTED, [records[-1].epoch]).fetchall())
    return [kind for kind, pairs in expected.items() if int(counts_by_class.get(kind) or 0) != pairs]
