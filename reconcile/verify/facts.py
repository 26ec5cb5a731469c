"""All that the checks judge: gathered once, from one version of each table and from the log."""

from dataclasses import dataclass

from cutover.definition.pipeline import Pipeline
from cutover.lake.epochs import EpochRecord
from cutover.lake.losses import Loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of one stream version."""

    stream: str  # pipeline/fingerprint/stream-n, as messages name it
    pipeline: Pipeline
    records: tuple[EpochRecord, ...]  # all epochs of the version, by number
    transaction: int | None  # of the table's newest epoch commit
    known_epoch: int | None  # highest epoch that an earlier reconciliation saw in this version
    losses: tuple[Loss, ...]  # recorded for this version
    table_version: int
