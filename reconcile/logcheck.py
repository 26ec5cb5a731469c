"""A sample of the ledger, read back from the log: the record at a position must belong where the ledger puts it."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from cutover.definition.pipeline import Pipeline
from cutover.errors import LakeError, LogError
from cutover.lake.batch_runs import BatchRun
from cutover.lake.epochs import EpochRecord
from cutover.lake.rejoin import Rejoin
from cutover.lake.tables import identifier
from cutover.log.kafka import LogClient, RawRecord
from cutover.records import reference
from cutover.settings import Settings
from reconcile.sides import Sides

SAMPLE = 20
WRONG = "a record at a late position does not belong to that window"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """What the ledger says of one late record."""

    partition: int
    offset: int
    window_start: int  # microseconds


def verify(
    settings: Settings, pipeline: Pipeline, run: BatchRun, sides: Sides, records: Sequence[EpochRecord]
) -> tuple[str, ...]:
    """Read up to 20 late positions from the log and put the wrong ones into `doubtful`.

    Returns:
        Notes: what was verified, or why it could not be. The log is not asked where nothing is late.
    """
    claims = _sampled(sides)
    if not claims:
        return ()
    try:
        client = LogClient(settings)
        log = client.describe(run.topic)
        if (log.cluster_id, log.topic_id) != (run.cluster_id, run.topic_id):
            return (f"Late positions were not read back: topic `{run.topic}` is another log by now.",)
        found = _read(client, run.topic, claims)
        wrong = _wrong(settings, pipeline, claims, found, records)
    except (LogError, LakeError) as error:
        first = str(error).split("\n", maxsplit=1)[0]
        return (f"Late positions were not read back from the log: {first}",)
    for claim in wrong:
        _doubt(sides, claim)
    read = sum((claim.partition, claim.offset) in found for claim in claims)
    notes = [f"{read} of {len(claims)} sampled late positions were read back from the log, {len(wrong)} wrong."]
    return (*notes, *([f"The stream's ledger is in doubt: {WRONG} ({len(wrong)} rows)."] if wrong else []))


def _sampled(sides: Sides) -> list[_Claim]:
    query = f"""
        SELECT _partition, _offset, epoch_us(window_start) FROM ledger WHERE _class = 'late'
        ORDER BY hash(_offset, _partition), 1, 2, 3 LIMIT {SAMPLE}
    """
    rows = sides.connection.execute(query).fetchall()
    return [_Claim(partition=int(p), offset=int(o), window_start=int(w)) for p, o, w in rows]


def _read(client: LogClient, topic: str, claims: Sequence[_Claim]) -> dict[tuple[int, int], RawRecord]:
    positions: dict[int, set[int]] = defaultdict(set)
    for claim in claims:
        positions[claim.partition].add(claim.offset)
    wanted = {partition: sorted(offsets) for partition, offsets in positions.items()}
    return {(record.partition, record.offset): record for record in client.read(topic, wanted)}


def _wrong(
    settings: Settings,
    pipeline: Pipeline,
    claims: Sequence[_Claim],
    found: dict[tuple[int, int], RawRecord],
    records: Sequence[EpochRecord],
) -> list[_Claim]:
    """Return the claims whose record does not count in the window where nothing is late; one that is gone is believed.

    Raises:
        LakeError: A record was joined with a version of a dimension that can no longer be read.
    """
    rejoin = Rejoin(settings, pipeline)
    dimensions = rejoin.at(rejoin.recorded(records))
    wrong = []
    for claim in claims:
        record = found.get((claim.partition, claim.offset))
        rows = {} if record is None else reference.run(pipeline, [record], dimensions=dimensions).rows
        if record is not None and claim.window_start not in {group[0] for group in rows}:
            wrong.append(claim)
    return wrong


def _doubt(sides: Sides, claim: _Claim) -> None:
    keys = ", ".join(map(identifier, (*sides.layout.keys, *sides.layout.further)))
    sides.connection.execute(
        f"INSERT INTO doubtful ({keys}, why) SELECT {keys}, '{WRONG}' FROM ledger"
        " WHERE _partition = ? AND _offset = ? AND epoch_us(window_start) = ?",
        [claim.partition, claim.offset, claim.window_start],
    )
