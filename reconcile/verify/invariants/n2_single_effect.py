"""N2, single effect: each epoch was committed once, by one driver at a time.

Each epoch of the version has one epoch record. After another driver has committed, the previous driver commits nothing
more; the run ids in the epoch records show this, and they outlive clean-up. In the retained part of the table's
history, the epochs of commits rise by exactly 1 in the order of table versions, each epoch record is the one in its
commit, and every commit that changes rows is an epoch or a fold. An append, delete or restore by another writer leaves
a commit without a record. Commits that a RESTORE has undone are not violations.
"""

import json
from collections.abc import Iterator, Sequence

from cutover.counts import count_noun
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.verify.facts.facts import EpochCommit, VerifyFacts
from cutover.reconcile.verify.model import Unknown, Violation, cap_violations

TITLE = "one effect"
HARMLESS = frozenset(
    {"CREATE TABLE", "OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "FSCK", "CHECKPOINT"}
)
REWRITE_MARKS = frozenset({"fold", "adopted"})


def check(facts: VerifyFacts) -> Iterator[Violation]:
    """Yield duplicate epochs, commits of fenced drivers, and commits by other writers."""
    yield from cap_violations("N2", [*find_duplicate_epochs(facts.stream, facts.records)])
    yield from cap_violations("N2", [*find_fenced_commits(facts.stream, facts.records)])
    if not isinstance(facts.commits, Unknown):
        yield from cap_violations("N2", [*find_misordered_epochs(facts.stream, facts.commits)])
        yield from cap_violations("N2", [*find_rewritten(facts.stream, facts.commits, facts.records)])
        yield from cap_violations("N2", [*find_foreign_commits(facts.stream, facts.commits)])


def describe_coverage(facts: VerifyFacts) -> str:
    """Describe how many epoch records and retained commits were checked."""
    commits = 0 if isinstance(facts.commits, Unknown) else len(facts.commits)
    return f"{count_noun(len(facts.records), 'epoch')}, {count_noun(commits, 'kept commit')}"


def find_duplicate_epochs(stream: str, records: Sequence[EpochRecord]) -> Iterator[str]:
    """Yield the epochs that have more than one record."""
    counts: dict[int, int] = {}
    for record in records:
        counts[record.epoch] = counts.get(record.epoch, 0) + 1
    for epoch, count in counts.items():
        if count > 1:
            yield f"Epoch log of {stream}: epoch {epoch}: expected one record, got {count}: it was committed twice."


def find_fenced_commits(stream: str, records: Sequence[EpochRecord]) -> Iterator[str]:
    """Yield the epochs that a driver committed after another one had fenced it."""
    fenced_runs: dict[str, EpochRecord] = {}
    current_run: str | None = None
    for record in records:
        if record.run_id in fenced_runs:
            fencing = fenced_runs[record.run_id]
            text = f"Epoch log of {stream}: epoch {record.epoch}: expected no commit of {record.run_id}"
            yield f"{text} after epoch {fencing.epoch} of {fencing.run_id} had fenced it, got one."
        if current_run is not None and record.run_id != current_run:
            fenced_runs.setdefault(current_run, record)
        current_run = record.run_id


def find_misordered_epochs(stream: str, commits: Sequence[EpochCommit]) -> Iterator[str]:
    """Yield the commits whose epoch does not follow the epoch of the previous epoch commit."""
    previous: tuple[int, int] | None = None
    for commit in commits:
        epoch = parse_epoch(commit)
        if epoch is None:
            continue
        if previous is not None and epoch != previous[1] + 1:
            text = f"Epoch log of {stream}: table version {commit.version}: expected epoch {previous[1] + 1} after"
            yield f"{text} epoch {previous[1]} (version {previous[0]}), got epoch {epoch}."
        previous = (commit.version, epoch)


def find_rewritten(stream: str, commits: Sequence[EpochCommit], records: Sequence[EpochRecord]) -> Iterator[str]:
    """Yield the epochs whose record differs from the one in their commit."""
    by_number = {record.epoch: record for record in records}
    for commit in commits:
        epoch = parse_epoch(commit)
        if epoch in by_number and EpochRecord.from_json(commit.mark or "") != by_number[epoch]:
            text = f"Epoch log of {stream}: epoch {epoch}: expected the record that table version {commit.version}"
            yield f"{text} committed, got another one."


def find_foreign_commits(stream: str, commits: Sequence[EpochCommit]) -> Iterator[str]:
    """Yield the commits that change rows and are neither an epoch nor a fold, unless a RESTORE undid them."""
    undone = find_undone(commits)
    for commit in commits:
        if not is_own_commit(commit) and commit.operation not in HARMLESS and commit.version not in undone:
            text = f"Epoch log of {stream}: table version {commit.version}: expected an epoch or a fold"
            yield f"{text}, got {commit.operation} without a record: it was not committed by Cutover."


def find_undone(commits: Sequence[EpochCommit]) -> frozenset[int]:
    """Return the versions that a RESTORE undid, and its own version, if no epoch or fold is between them.

    N9 checks by the weights of the files that all rows were restored.
    """
    commits_by_version, undone = {commit.version: commit for commit in commits}, set[int]()
    for commit in commits:
        if commit.restored_version is not None and not is_own_commit(commit):
            between = range(commit.restored_version + 1, commit.version)
            if all(
                version in commits_by_version and not is_own_commit(commits_by_version[version]) for version in between
            ):
                undone |= {*between, commit.version}
    return frozenset(undone)


def is_own_commit(commit: EpochCommit) -> bool:
    """Return whether a commit is an epoch's or a fold."""
    return parse_epoch(commit) is not None or commit.mark in REWRITE_MARKS


def parse_epoch(commit: EpochCommit) -> int | None:
    """Parse the epoch of a commit; None if it is not an epoch commit."""
    try:
        mark = json.loads(commit.mark or "")
    except ValueError:
        return None
    epoch = mark.get("epoch") if isinstance(mark, dict) else None
    return epoch if isinstance(epoch, int) else None
