"""N2 one effect: each epoch was committed once, by one driver at a time.

One row with an epoch's record for each epoch of the version. Drivers follow one another: once another one has
committed, the one before commits nothing more; told from the names in the epochs' rows, which outlive clean-up. In
the part of the table's history that is kept: the epochs that commits carry rise by exactly 1 in the order of table
versions, each epoch's row is what its commit brought, and every commit that changes rows is an epoch or a fold: a
hand that appends, deletes or restores leaves a commit without a name. What a RESTORE has undone is no finding.
"""

import json
from collections.abc import Iterator, Sequence

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.verify.facts.facts import EpochCommit, VerifyFacts
from cutover.reconcile.verify.model import Unknown, Violation, cap_violations

TITLE = "one effect"
HARMLESS = frozenset(
    {"CREATE TABLE", "OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "FSCK", "CHECKPOINT"}
)
OF_OURS = frozenset({"fold", "adopted"})


def check(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield epochs that stand twice, drivers that came back, commits that are none of ours."""
    yield from cap_violations("N2", [*rows(facts.stream, facts.records)])
    yield from cap_violations("N2", [*drivers(facts.stream, facts.records)])
    if not isinstance(facts.commits, Unknown):
        yield from cap_violations("N2", [*order(facts.stream, facts.commits)])
        yield from cap_violations("N2", [*find_rewritten(facts.stream, facts.commits, facts.records)])
        yield from cap_violations("N2", [*find_foreign_commits(facts.stream, facts.commits)])


def describe_coverage(facts: VerifyFacts) -> str:
    """Epoch records, and commits that the table's log still holds."""
    commits = 0 if isinstance(facts.commits, Unknown) else len(facts.commits)
    return f"{len(facts.records):,} epochs, {commits:,} kept commits"


def rows(stream: str, records: Sequence[EpochRecord]) -> Iterator[str]:
    """Yield the epochs that have more than one row."""
    seen: dict[int, int] = {}
    for record in records:
        seen[record.epoch] = seen.get(record.epoch, 0) + 1
    for epoch, times in seen.items():
        if times > 1:
            yield f"Epoch log of {stream}: epoch {epoch}: expected one record, got {times}: it was committed twice."


def drivers(stream: str, records: Sequence[EpochRecord]) -> Iterator[str]:
    """Yield the epochs that a driver committed after another one had taken its place."""
    overtaken: dict[str, EpochRecord] = {}
    holder: str | None = None
    for record in records:
        if record.run_id in overtaken:
            by = overtaken[record.run_id]
            text = f"Epoch log of {stream}: epoch {record.epoch}: expected no commit of {record.run_id}"
            yield f"{text} after epoch {by.epoch} of {by.run_id} had fenced it, got one."
        if holder is not None and record.run_id != holder:
            overtaken.setdefault(holder, record)
        holder = record.run_id


def order(stream: str, commits: Sequence[EpochCommit]) -> Iterator[str]:
    """Yield the commits whose epoch does not follow that of the commit with an epoch before it."""
    before: tuple[int, int] | None = None
    for commit in commits:
        epoch = epoch_of(commit)
        if epoch is None:
            continue
        if before is not None and epoch != before[1] + 1:
            text = f"Epoch log of {stream}: table version {commit.version}: expected epoch {before[1] + 1} after"
            yield f"{text} epoch {before[1]} (version {before[0]}), got epoch {epoch}."
        before = (commit.version, epoch)


def find_rewritten(stream: str, commits: Sequence[EpochCommit], records: Sequence[EpochRecord]) -> Iterator[str]:
    """Yield the epochs whose row is not the one that their commit brought."""
    by_number = {record.epoch: record for record in records}
    for commit in commits:
        epoch = epoch_of(commit)
        if epoch in by_number and EpochRecord.from_json(commit.mark or "") != by_number[epoch]:
            text = f"Epoch log of {stream}: epoch {epoch}: expected the record that table version {commit.version}"
            yield f"{text} brought, got another one."


def find_foreign_commits(stream: str, commits: Sequence[EpochCommit]) -> Iterator[str]:
    """Yield the commits that change rows and are neither an epoch nor a fold, unless they were undone."""
    without = find_undone(commits)
    for commit in commits:
        if not is_ours(commit) and commit.operation not in HARMLESS and commit.version not in without:
            text = f"Epoch log of {stream}: table version {commit.version}: expected an epoch or a fold"
            yield f"{text}, got {commit.operation} without a record: a hand was at work."


def find_undone(commits: Sequence[EpochCommit]) -> frozenset[int]:
    """Return the versions that a RESTORE took back, and its own, where nothing of ours lies between.

    What the files weigh tells apart whether all is as it was (N9).
    """
    kept, found = {commit.version: commit for commit in commits}, set[int]()
    for commit in commits:
        if commit.back_to is not None and not is_ours(commit):
            between = range(commit.back_to + 1, commit.version)
            if all(version in kept and not is_ours(kept[version]) for version in between):
                found |= {*between, commit.version}
    return frozenset(found)


def is_ours(commit: EpochCommit) -> bool:
    """Return whether a commit is an epoch's or a fold."""
    return epoch_of(commit) is not None or commit.mark in OF_OURS


def epoch_of(commit: EpochCommit) -> int | None:
    """Return the epoch that a commit carries; None if it carries none."""
    try:
        found = json.loads(commit.mark or "")
    except ValueError:
        return None
    epoch = found.get("epoch") if isinstance(found, dict) else None
    return epoch if isinstance(epoch, int) else None
