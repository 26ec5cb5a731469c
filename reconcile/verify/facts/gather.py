"""The parts of the facts by name; each check says which ones it needs."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import duckdb

from cutover.errors import CutoverError
from cutover.reconcile.verify.facts import batch_ledger, log_counts, paths, recompute, results, rows
from cutover.reconcile.verify.facts.facts import NOT_ASKED, VerifyFacts
from cutover.reconcile.verify.facts.source import Source, explain_unreadable
from cutover.reconcile.verify.model import Unknown

PARTS: Mapping[str, Callable[[Source, VerifyFacts], object]] = {
    "books": rows.books,
    "batch_ledger": batch_ledger.read_batch_ledger,
    "commits": rows.commits,
    "reopened": rows.find_reopened,
    "log": log_counts.counts,
    "prefix": recompute.prefix,
    "paths": paths.paths,
    "finals": results.finals,
    "twice": results.twice,
    "foreign": rows.foreign,
}


def with_part(source: Source, facts: VerifyFacts, name: str) -> VerifyFacts:
    """Return the facts with one part more, if it is not there yet; a part that cannot be had says why.

    Raises:
        LakeError: A file of the epoch log cannot be read.
    """
    if getattr(facts, name) != NOT_ASKED:
        return facts
    try:
        part = PARTS[name](source, facts)
    except duckdb.Error as error:
        raise explain_unreadable(source.log, error) from error
    except CutoverError as error:
        part = Unknown(why=str(error).split("\n", maxsplit=1)[0])
    return replace(facts, **{name: part})  # type: ignore[arg-type]  # each part is made by its own function
