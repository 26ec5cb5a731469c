"""A lake's history in memory, its clock and its people: the gate's own code runs in it, thousands of moves a minute.

The tables keep what the real ones promise: rows of a pipeline have numbers in turn, a row is appended in its turn or
not at all, and nothing is changed. A crash happens before or after a row is written.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from unittest import mock

from cutover.definition import Count, Pipeline, Policy
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.lake.control.served import list_moves
from cutover.lake.control.versions import Version
from cutover.lake.journal import Journal, JournalRow, SequenceConflictError
from cutover.lake.serving import serving_table
from cutover.reconcile.gate import evidence as evidence_of
from cutover.reconcile.gate import stage
from cutover.reconcile.gate.decide import EvidenceRun, GateEvidence, PresentState, Replayability
from cutover.reconcile.verdict.records import fold_lines
from cutover.settings import Settings
from tests.integration.streaming import rig
from tests.support.history.self_tests import make_passed
from tests.unit.gate.test_evidence import row

RUNS = 3
CLICKS = replace(rig.pipeline("clicks"), policy=Policy(runs=RUNS))
OTHER = replace(CLICKS, measures={"others": Count()})
Crash = Literal["before", "after"]


class Killed(Exception):  # noqa: N818 -- not an error of the product: the process was killed
    """The process that made a move was killed."""


@dataclass
class World:
    """State that the gate reads and writes, and its clock."""

    now: datetime = datetime(2026, 11, 21, 12, tzinfo=UTC)
    pipeline: Pipeline = CLICKS
    version: int = 0
    agrees: bool = True  # what a look within a move finds
    refused: bool = False  # whether no sample of windows could detect what the policy requires
    crash: Crash | None = None  # of the next row of the gate
    meanwhile: Callable[[], None] | None = None  # what another person does while a move is decided
    looks: int = 0  # at the clock until then: a move looks before each decision, and before it is written
    tables: dict[str, list[Any]] = field(default_factory=lambda: {"gate": [], "reconciliations": []})

    def read(self, journal: Journal[Any]) -> list[Any]:
        """Return the rows, as readers of the lake get them."""
        return list(self.tables.get(journal.table, []))

    def next_sequence(self, journal: Journal[Any]) -> int:
        """Return the sequence of the next row."""
        return len(self.tables[journal.table])

    def append(self, journal: Journal[Any], *rows: JournalRow, expected_sequence: int | None = None) -> int:
        """Append with the next sequence, or refuse; a crash is on either side of it."""
        crash, self.crash = self.crash, None
        if crash == "before":
            raise Killed
        table = self.tables[journal.table]
        sequence = len(table)
        if expected_sequence not in {None, sequence}:
            raise SequenceConflictError("another row came first")  # noqa: EM101 -- a test's
        table += [replace(row, sequence=sequence) for row in rows]
        if crash == "after":
            raise Killed
        return sequence

    def compare(
        self, epoch: int, *, is_within_policy: bool, is_complete: bool = True, ahead: timedelta = timedelta(0)
    ) -> None:
        """Record a comparison at a cut, whichever was recorded before it, by a host whose clock may be ahead."""
        number = len(self.tables["reconciliations"])
        bad = {} if is_within_policy else {"verdict": "DIVERGED", "exit_code": 1}
        entry = row(
            epoch, run_id=f"run-{number}", at=self.now + ahead, sequence=number, stream_version=self.version, **bad
        )
        ranged = '{"windows": {}, "from": "2026-01-01T00:00:00Z"}'
        entry = replace(entry, result_fingerprint=result_fingerprint(self.pipeline))
        self.tables["reconciliations"].append(entry if is_complete else replace(entry, result=ranged))

    def evidence(self, *_: object) -> GateEvidence:
        """Return what the gate reads, by its own reader of histories."""
        fingerprint = result_fingerprint(self.pipeline)
        version = Version(
            pipeline="clicks", result_fingerprint=fingerprint, lateness_fingerprint="b", number=self.version, uri="x"
        )
        runs = evidence_of.list_runs(fold_lines(self.tables["reconciliations"]), version, policy=self.pipeline.policy)
        return GateEvidence(
            runs=evidence_of.select_runs_after_last_move(runs, list_moves(Settings(), "clicks"), version),
            replay=Replayability(retention=None, replay_time=timedelta(hours=1)),
            self_test=make_passed(self.now),
            audit_refusal="no sample" if self.refused else None,
            result_fingerprint=fingerprint,
            stream_version=self.version,
        )

    def compare_now(self, *_: object) -> PresentState:
        """Compare at the newest cut."""
        run = EvidenceRun(run_id="now", at=self.now, epoch=99, outcome="CONSISTENT", is_within_policy=self.agrees)
        return PresentState(run=run, reason="looked")

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let the gate's code run in this world."""
        with (
            mock.patch.object(Journal, "read", _as_method(self.read)),
            mock.patch.object(Journal, "next_sequence", _as_method(self.next_sequence)),
            mock.patch.object(Journal, "append", _as_method(self.append)),
            mock.patch.object(evidence_of, "read_evidence", self.evidence),
            mock.patch.object(stage, "examine_present", self.compare_now),
            mock.patch.object(serving_table, "update_tables"),
        ):
            yield


def _as_method(answer: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that, as a method of a journal, passes the journal on."""

    def method(journal: Journal[Any], *rows: JournalRow, **expected: int | None) -> Any:
        return answer(journal, *rows, **expected)

    return method


@dataclass(frozen=True, slots=True)
class WorldClock:
    """Clock of a world."""

    world: World

    def now(self) -> datetime:
        """Return the time; another process may act first."""
        self.world.looks -= 1
        if self.world.meanwhile is not None and self.world.looks < 0:
            other, self.world.meanwhile = self.world.meanwhile, None
            other()
        return self.world.now

    def monotonic(self) -> float:
        """Return the same time as seconds; nothing here measures a length of time."""
        return self.world.now.timestamp()
