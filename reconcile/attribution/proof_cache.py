"""Cache of proven claims, so that a claim is not read from the log again.

A late row differs permanently, while the log eventually deletes its records. A claim stays proven as long as all inputs
of its proof are unchanged; the cache stores a digest of these inputs.
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


def compute_claim_digest(run: BatchRun, place: Place, sides: Sequence[Side], ledger: str) -> str:
    """Return the digest of one claim: its log, its place, all rows of the place on all sides, and the ledger's rows.

    Args:
        run: Batch run that identifies the log.
        place: The row, or the sessions, of the claim.
        sides: The stream's rows after each class, then the batch's.
        ledger: Digest of the ledger's rows that can matter in addition to these values; empty if none can.
    """
    rows = [
        [(*window, row.n, list(row.measures.items())) for window, row in sorted(side, key=_start)] for side in sides
    ]
    claim = (version("cutover"), run.cluster_id, run.topic_id, place.interval, place.key, rows, ledger)
    return sha256(repr(claim).encode()).hexdigest()[:32]


def _start(row: tuple[Interval, ResultRow]) -> Interval:
    return row[0]


def read_proven_claims(settings: Settings, pipeline: Pipeline) -> frozenset[str]:
    """Read the digests of all claims that were proven under a definition.

    Raises:
        LakeError: The table cannot be read.
    """
    rows = Journal(settings, pipeline.name, ProvenClaims).read()
    fingerprint = result_fingerprint(pipeline)
    return frozenset(digest for row in rows if row.result_fingerprint == fingerprint for digest in row.digests)


def save_proofs(settings: Settings, pipeline: Pipeline, digests: Sequence[str]) -> None:
    """Append the digests of newly proven claims."""
    if digests:
        claims = ProvenClaims(
            pipeline=pipeline.name,
            result_fingerprint=result_fingerprint(pipeline),
            at=datetime.now(UTC),
            digests=tuple(sorted(digests)),
        )
        Journal(settings, pipeline.name, ProvenClaims).append(claims)
