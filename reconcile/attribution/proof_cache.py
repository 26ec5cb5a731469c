"""Proofs that were found once, kept by what they were found of, so that the same claim needs no second look at the log.

A row that came late differs for good, while the log forgets its records. What was proven of a place stays proven as
long as everything that the proof looked at is as it was, to the last digit: the digest of it all is what is kept.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import Interval
from cutover.lake.batch_runs import BatchRun
from cutover.lake.journal import Journal
from cutover.reconcile.attribution.claims import Place
from cutover.reconcile.journal_rows import ProvenClaims
from cutover.records.reference import ResultRow
from cutover.settings import Settings

Side = Sequence[tuple[Interval, ResultRow]]


def digest(run: BatchRun, place: Place, sides: Sequence[Side], ledger: str) -> str:
    """Return the name of one claim: this log, this place, all its rows on all sides, what the ledger says there.

    Args:
        run: Names the log.
        place: The row, or the sessions, that it is about.
        sides: The stream's rows after each class, then the batch's.
        ledger: A digest of the ledger's rows that can matter beside these values; empty: none can.
    """
    rows = [
        [(*window, row.n, list(row.measures.items())) for window, row in sorted(side, key=_start)] for side in sides
    ]
    told = (version("cutover"), run.cluster_id, run.topic_id, place.one, place.key, rows, ledger)
    return sha256(repr(told).encode()).hexdigest()[:32]


def _start(row: tuple[Interval, ResultRow]) -> Interval:
    return row[0]


def read_proven_claims(settings: Settings, pipeline: Pipeline) -> frozenset[str]:
    """Return the digests of all claims that were proven under a definition.

    Raises:
        LakeError: The table cannot be read.
    """
    rows = Journal(settings, pipeline.name, ProvenClaims).read()
    fingerprint = result_fingerprint(pipeline)
    return frozenset(digest for row in rows if row.result_fingerprint == fingerprint for digest in row.digests)


def remember(settings: Settings, pipeline: Pipeline, digests: Sequence[str]) -> None:
    """Keep the digests of claims that were proven just now."""
    if digests:
        claims = ProvenClaims(
            pipeline=pipeline.name,
            result_fingerprint=result_fingerprint(pipeline),
            at=datetime.now(UTC),
            digests=tuple(sorted(digests)),
        )
        Journal(settings, pipeline.name, ProvenClaims).append(claims)
