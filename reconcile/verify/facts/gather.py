"""Gathering of facts part by part, as the checks need them."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import duckdb

from cutover.errors import CutoverError
from cutover.reconcile.verify.facts import log_counts, recompute, results, rows
from cutover.reconcile.verify.facts.facts import NOT_REQUESTED, VerifyFacts
from cutover.reconcile.verify.facts.source import Source, explain_unreadable
from cutover.reconcile.verify.model import Unknown

PARTS: Mapping[str, Callable[[Source, VerifyFacts], object]] = {
    "books": rows.compute_row_totals,
    "batch_ledger": rows.read_batch_ledger,
    "commits": rows.read_commits,
    "reopened": rows.find_reopened,
    "log": log_counts.count_log_records,
    "prefix": recompute.recompute_prefix,
    "paths": results.evaluate_path_agreement,
    "finals": results.compare_finals,
    "repeated": results.compare_repeated_runs,
    "foreign": rows.list_foreign_changes,
}


def with_part(source: Source, facts: VerifyFacts, name: str) -> VerifyFacts:
    """Add one part to the facts unless they have it; a part that cannot be gathered becomes `Unknown`.

    Raises:
        LakeError: A file of the epoch log cannot be read.
    """
    if getattr(facts, name) != NOT_REQUESTED:
        return facts
    try:
        part = PARTS[name](source, facts)
    except duckdb.Error as error:
        raise explain_unreadable(source.log, error) from error
    except CutoverError as error:
        part = Unknown(reason=str(error).split("\n", maxsplit=1)[0])
    return replace(facts, **{name: part})  # type: ignore[arg-type]  # `PARTS` has the right type for each name
