"""No order of comparisons, people, crashes and clock jumps leads on without evidence and approval, or loses a move.

The rules drive the gate's own code (`approval`, `stage.move`, `decide`, the reader of histories) over a history in
memory. Their assertions are written independently here, from the bare rows, without the gate's code.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from cutover import changes
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.policy import Stage
from cutover.errors import LakeError
from cutover.lake.control import served
from cutover.lake.control.served import current_stage
from cutover.lake.journal import Journal, SequenceConflictError
from cutover.lake.journal_rows import GateEvent
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.gate import criteria, decide, gate_values, stage
from cutover.reconcile.gate.stage import StageApproval, StageProposal
from cutover.reconcile.verdict import statistics
from cutover.settings import MetricsSettings, Settings
from tests.support.history.gate_world import CLICKS, OTHER, RUNS, Killed, World, WorldClock
from tests.support.history.journal_rows import make_row

WEEK = timedelta(days=7)
HOUR = timedelta(hours=1)
HOURS = st.sampled_from([1, 23, -1, -48, 24 * 3, 24 * 8, -24 * 8])
AHEAD = st.sampled_from([0, 0, 0, 1, -1, 48, 24 * 3_650]).map(lambda hours: hours * HOUR)  # clock of another host
PEOPLE = st.sampled_from(["airflow:ada", "airflow:bob", ""])  # "": no name
NOWHERE = Settings(metrics=MetricsSettings(files=False))  # nothing is written anywhere


class Gate(RuleBasedStateMachine):
    """People and machines around one pipeline; each step may be the last thing that a process did."""

    proposals = Bundle("proposals")

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.epoch = 0
        self.issued: dict[str, StageProposal] = {}
        self.kept: list[dict[str, Any]] = []  # the history as it was after the step before
        self.entered = self.world.entered()
        self.entered.__enter__()

    def teardown(self) -> None:
        self.entered.__exit__(None, None, None)

    @rule(target=proposals, steps=st.integers(0, 4))
    def compare_newer_cuts_and_propose(self, steps: int) -> StageProposal | None:
        for _ in range(steps):
            self.epoch += 1
            self.world.compare(self.epoch, is_within_policy=True)
        _, proposal = stage.make_stage_proposal(PipelineLake(NOWHERE, self.world.pipeline), WorldClock(self.world))
        if proposal is not None:
            self.issued[proposal.digest] = proposal
        return proposal

    @rule(steps=st.integers(-6, 1), is_within_policy=st.booleans(), is_complete=st.booleans(), ahead=AHEAD)
    def compare_out_of_order(self, steps: int, *, is_within_policy: bool, is_complete: bool, ahead: timedelta) -> None:
        self.world.compare(
            max(0, self.epoch + steps), is_within_policy=is_within_policy, is_complete=is_complete, ahead=ahead
        )
        self.epoch += max(steps, 0)

    @rule(hours=HOURS)
    def jump_clock(self, hours: int) -> None:
        self.world.now += hours * HOUR

    @rule(agrees=st.booleans(), chance=st.integers(0, 4))
    def change_what_a_look_finds(self, *, agrees: bool, chance: int) -> None:
        self.world.agrees = agrees
        self.world.refused = chance == 0

    @rule(other=st.booleans(), chance=st.integers(0, 3))
    def change_definition_or_version(self, *, other: bool, chance: int) -> None:
        if chance == 0 and other:
            self.world.pipeline = OTHER if self.world.pipeline is CLICKS else CLICKS
        elif chance == 0:
            self.world.version += 1
            self.epoch = 0

    @rule(proposal=proposals, person=PEOPLE, crash=st.sampled_from([None, None, None, "before", "after"]))
    def approve(self, proposal: StageProposal | None, person: str, crash: Any) -> None:
        """Move on by an approval: late, twice, by anybody; a killed task is run again."""
        if proposal is None:
            return
        self.world.crash = crash
        self.move(proposal, person)
        self.world.crash = None
        if crash is not None:
            self.move(proposal, person)

    @rule(proposal=proposals, looks=st.integers(0, 2), back=st.booleans())
    def two_people_at_once(self, proposal: StageProposal | None, looks: int, *, back: bool) -> None:
        """Make another move, or the same one, while one is decided: only one of them counts."""
        if proposal is None:
            return
        rows_before = len(self.world.tables["gate"])
        self.world.looks = looks
        self.world.meanwhile = self.roll_back if back else lambda: self.move(proposal, "airflow:bob")
        self.move(proposal, "airflow:ada")
        self.world.meanwhile = None
        assert len(self.world.tables["gate"]) <= rows_before + 1, "two moves were decided on one history"

    @rule()
    def roll_back(self) -> None:
        lake = PipelineLake(NOWHERE, self.world.pipeline)
        was = current_stage(lake)
        decision = stage.roll_back_stage(lake, "drill", WorldClock(self.world))
        assert decision.allowed is (was is not Stage.LAMBDA)
        assert current_stage(lake) is Stage.LAMBDA

    @precondition(lambda self: current_stage(PipelineLake(NOWHERE, self.world.pipeline)) is Stage.KAPPA)
    @rule()
    def roll_back_a_stage(self) -> None:
        clock = WorldClock(self.world)
        lake = PipelineLake(NOWHERE, self.world.pipeline)
        stage.roll_back_stage(lake, "drill", clock, back_to=Stage.SHADOW)
        assert current_stage(lake) is Stage.SHADOW

    @rule(proposal=proposals, during_move=st.booleans(), chance=st.integers(0, 3))
    def withdraw(self, proposal: StageProposal | None, *, during_move: bool, chance: int) -> None:
        """Withdraw a move that is not made, perhaps while it is: it cannot be made any more, and all else stays."""
        if proposal is None or chance:
            return
        lake = PipelineLake(NOWHERE, self.world.pipeline)
        state_before = (current_stage(lake), self.world.evidence().runs)
        if during_move:
            self.world.looks, self.world.meanwhile = 0, lambda: self.move(proposal, "airflow:bob")
        stage.withdraw_move(NOWHERE, proposal, "marked failed", WorldClock(self.world))
        self.world.meanwhile = None
        state_after = (current_stage(lake), self.world.evidence().runs)
        assert during_move or state_after == state_before, "a withdrawal changed what counts"
        moves_made = [table for table in self.world.tables["gate"] if table.event == "advanced"]
        self.move(proposal, "airflow:ada")
        assert [table for table in self.world.tables["gate"] if table.event == "advanced"] == moves_made, (
            "it was withdrawn"
        )

    def move(self, proposal: StageProposal, person: str) -> None:
        """Do what the task of the DAG does with an answer."""
        if stage.is_applied(NOWHERE, proposal):
            return
        yes = StageApproval(proposal=proposal, who=person)
        with contextlib.suppress(LakeError, Killed):
            stage.move(
                PipelineLake(NOWHERE, self.world.pipeline), "advance", "why", WorldClock(self.world), approved=yes
            )

    @invariant()
    def history_is_only_appended_to(self) -> None:
        rows = self.world.tables["gate"]
        assert rows[: len(self.kept)] == self.kept
        assert [row.sequence for row in rows] == list(range(len(rows)))
        for row in rows[len(self.kept) :]:
            self.check_move(row)
        self.kept = list(rows)

    @invariant()
    def readers_have_a_path(self) -> None:
        """One stage is served, and LAMBDA can be had from each."""
        now = current_stage(PipelineLake(NOWHERE, self.world.pipeline))
        back = decide.decide(now, decide.GateEvidence(), "rollback", self.world.pipeline.policy, self.world.now)
        assert now in {Stage.LAMBDA, Stage.SHADOW, Stage.KAPPA}
        assert back.allowed is (now is not Stage.LAMBDA)

    def check_move(self, advanced_event: GateEvent) -> None:
        """Check a new row of the history against the earlier ones, read from the bare rows."""
        if advanced_event.event != "advanced":
            return
        rows = [row for row in self.world.tables["gate"][: advanced_event.sequence] if row.event != "withdrawn"]
        is_same_definition = rows and rows[-1].result_fingerprint == result_fingerprint(self.world.pipeline)
        stage_before = rows[-1].stage if is_same_definition else "LAMBDA"
        assert (stage_before, advanced_event.stage) in {("LAMBDA", "SHADOW"), ("SHADOW", "KAPPA")}
        proposal = self.issued[json.loads(advanced_event.evidence)["approved"]]
        assert proposal.turn == advanced_event.sequence, "approved for another moment of the history"
        assert (proposal.stage, proposal.target) == (stage_before, advanced_event.stage)
        assert advanced_event.who.startswith("airflow:"), "approved without a person"
        assert self.world.agrees, "the paths differed within the move"
        assert json.loads(advanced_event.evidence)["audit"] == statistics.describe_requirement(
            self.world.pipeline.policy.audit
        )
        assert advanced_event.stage != "KAPPA" or not self.world.refused, "retired though no sample can be drawn"
        assert len(self.find_evidence(rows)) >= RUNS, "moved without evidence"

    def find_evidence(self, moves: list[GateEvent]) -> set[int]:
        """Return the cuts that count for a move now: agreed on since the last one, recently, and not contradicted."""
        current_version = (result_fingerprint(self.world.pipeline), self.world.version)
        comparisons = [
            table
            for table in self.world.tables["reconciliations"]
            if (table.result_fingerprint, table.stream_version) == current_version
        ]
        first_sequence = moves[-1].next_comparison if moves else 0
        comparisons = [comparison for comparison in comparisons if comparison.sequence >= first_sequence]
        bad = [(comparison.epoch, comparison.sequence) for comparison in comparisons if comparison.exit_code]
        good = [
            comparison
            for comparison in comparisons
            if not comparison.exit_code and "from" not in json.loads(comparison.result)
        ]
        now = self.world.now
        recent = [
            table.sequence
            for table in self.world.tables["reconciliations"]
            if now - WEEK <= table.at <= now + HOUR  # what is dated later may be of any time
        ]
        return {
            comparison.epoch
            for comparison in good
            if min(recent, default=comparison.sequence + 1) <= comparison.sequence
            and all((comparison.epoch, comparison.sequence) > place for place in bad)
        }


MOVES = {"SHADOW/advanced", "KAPPA/advanced", "LAMBDA/rolled_back"}
RULES = settings(
    max_examples=600,
    stateful_step_count=30,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def test_no_path_leads_on_without_evidence_and_approval() -> None:
    moves_made: set[str] = set()

    class Watched(Gate):
        def teardown(self) -> None:
            moves_made.update(table.stage + "/" + table.event for table in self.world.tables["gate"])
            super().teardown()

    run_state_machine_as_test(Watched, settings=RULES)
    if (
        not moves_made >= MOVES
    ):  # Hypothesis draws constants from modules that this process has imported: others go elsewhere
        run_state_machine_as_test(Watched, settings=settings(RULES, max_examples=5 * RULES.max_examples))

    assert moves_made >= MOVES, "the machine went nowhere"


def count_all(runs: Any, _now: object, _losses: object = ()) -> Any:
    return tuple(run for run in runs if run.is_within_policy)


def count_old(runs: Any, now: datetime, losses: Any = ()) -> Any:
    with mock.patch.object(gate_values, "EXPIRES_AFTER", timedelta(days=9_000)):
        return REAL_ROW(runs, now, losses)


def date_by_own_clock(runs: Any, now: datetime) -> Any:
    return {run.run_id: min(run.at, now) for run in runs}


@contextlib.contextmanager
def count_future_runs() -> Iterator[None]:
    with (
        mock.patch.object(gate_values, "find_earliest_run_times", date_by_own_clock),
        mock.patch.object(decide, "find_earliest_run_times", date_by_own_clock),
    ):
        yield


def append_out_of_turn(self: World, journal: Any, *rows: Any, **_: object) -> int:
    return REAL_APPEND(self, journal, *rows)


REAL_ROW, REAL_APPEND = decide.select_consecutive_runs, World.append
DEFECTS: dict[str, Callable[[], Any]] = {
    "a bad run breaks no row": lambda: mock.patch.object(decide, "select_consecutive_runs", count_all),
    "evidence never expires": lambda: mock.patch.multiple(
        decide,
        select_consecutive_runs=count_old,
        criteria=mock.MagicMock(wraps=criteria, evaluate_freshness=always_fresh),
    ),
    "a run of the future is fresh": count_future_runs,
    "an approval fits every evidence": lambda: mock.patch.object(changes, "check_approval_unchanged"),
    "no one is a person": lambda: mock.patch.object(changes.Approval, "check_person"),
    "rows are written out of turn": lambda: mock.patch.object(World, "append", append_out_of_turn),
    "nothing is compared within the move": lambda: mock.patch.object(World, "compare_now", skip_comparison),
    "a withdrawal writes nothing": lambda: mock.patch.object(stage, "withdraw_move"),
    "a withdrawal is a move": lambda: mock.patch.object(served, "WITHDRAWN", "other"),
}


def always_fresh(*_: object) -> decide.Condition:
    return decide.Condition(name="freshness", is_met=True, detail="")


def skip_comparison(self: World, *_: object) -> decide.PresentState:
    with mock.patch.object(self, "agrees", True):  # noqa: FBT003 -- a value
        return REAL_LOOK(self)


REAL_LOOK = World.compare_now


@pytest.mark.parametrize(
    ("defect", "message"),
    [
        ("a bad run breaks no row", "moved without evidence"),
        ("evidence never expires", "moved without evidence"),
        ("a run of the future is fresh", "moved without evidence"),
        ("an approval fits every evidence", "approved for another moment|it was withdrawn"),
        ("no one is a person", "approved without a person"),
        ("rows are written out of turn", "two moves were decided"),
        ("nothing is compared within the move", "the paths differed within the move"),
        ("a withdrawal writes nothing", "it was withdrawn"),
        ("a withdrawal is a move", "a withdrawal changed what counts"),
    ],
)
def test_planted_defect_is_found(defect: str, message: str) -> None:
    run_settings = settings(RULES, max_examples=2_000, phases=(Phase.generate,), report_multiple_bugs=False)

    with DEFECTS[defect](), pytest.raises(AssertionError, match=message):
        run_state_machine_as_test(Gate, settings=run_settings)


def test_the_world_refuses_as_the_lake_does() -> None:
    world = World()
    journal = Journal(NOWHERE, "clicks", GateEvent)
    world.append(journal, make_row(GateEvent), expected_sequence=0)

    with pytest.raises(SequenceConflictError):
        world.append(journal, make_row(GateEvent), expected_sequence=0)
