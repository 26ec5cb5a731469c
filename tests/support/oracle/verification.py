"""All checks of a stream, and its books to the single record by what a producer knows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cutover.clock import SystemClock
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier
from cutover.reconcile.verify.facts.facts import CheckState, Verification, cap_violations
from cutover.reconcile.verify.facts.rows import query_ledger
from cutover.reconcile.verify.facts.source import ROWS, Source, VerifyRequest, open_source
from cutover.reconcile.verify.record import verify_pipeline
from cutover.records.classes import Class
from tests.support.oracle.completeness import Cell, CountedRow, HeldRows, check
from tests.support.oracle.records import Oracle


def verify_with_oracle(lake: PipelineLake, oracle: Oracle, *, only: Sequence[str] = ()) -> Verification:
    """Run the checks over all that the log holds; what the oracle finds is a violation of N1, where N1 is judged."""
    verification = verify_pipeline(lake, only=only, exhaustive=True)
    completeness = verification.checks.get("N1")
    if completeness is None or completeness.state is CheckState.WAIVED or verification.error:
        return verification
    source, facts = open_source(lake, VerifyRequest(now=SystemClock().now(), exhaustive=True))
    with source.connection:
        held_rows = HeldRows(cells=_count_cells(source), ledger=query_ledger(source, "true"))
    violations = tuple(cap_violations("N1", [*check(facts, held_rows, oracle)]))
    if not violations:
        return verification
    violated = replace(completeness, state=CheckState.VIOLATED, violations=(*completeness.violations, *violations))
    return replace(verification, checks={**verification.checks, "N1": violated}, runbook="InvariantBroken")


def _count_cells(source: Source) -> Mapping[Cell, CountedRow]:
    """Count each (window, key) as the stream holds it, late records included; the definition sums ids and squares."""
    keys = ", ".join(map(identifier, source.lake.pipeline.key))
    query = (
        f"SELECT epoch_us(window_start), sum(_n)::BIGINT, sum(ids)::HUGEINT, sum(squares)::HUGEINT, {keys} FROM {ROWS}"  # noqa: S608
        f" WHERE _class IN ('{Class.ACCEPTED}', '{Class.LATE}') GROUP BY window_start, {keys}"
    )
    rows = source.connection.execute(query).fetchall()
    return {(w, tuple(key)): CountedRow(n=int(n), ids=int(i or 0), squares=int(s or 0)) for w, n, i, s, *key in rows}
