"""The demonstration's second act: batch is retired on evidence, a defect comes, the audit finds it, batch is back."""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from cutover.definition.loading import catalogue
from cutover.errors import CutoverError, DefinitionError
from cutover.infra import start
from cutover.infra.airflow import instance
from cutover.infra.airflow.api import Api
from cutover.infra.demo.defect import plant
from cutover.infra.demo.demonstration import PIPELINE, SETTLED, DemoStep, show
from cutover.infra.demo.runs import Runs
from cutover.infra.demo.sample import SamplePart, send
from cutover.infra.demo.send import run
from cutover.infra.demo.story import Story
from cutover.infra.waiting import Tell, until
from cutover.lake.control import stages, versions
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import WindowAuditRow
from cutover.lake.serving import views
from cutover.output.console import show_spinner
from cutover.settings import Settings
from cutover.timestamps import to_micros

_FIRST, _STRETCH, _COUNT = datetime(2013, 1, 8, tzinfo=UTC), timedelta(days=7), 8
_ENDS = [to_micros(_FIRST + n * _STRETCH) for n in range(_COUNT)]
_WEEKS = [SamplePart(start=start, end=end) for start, end in zip([None, *_ENDS], _ENDS, strict=False)]
_RUNS = 3  # of evidence before each move, as the definition's policy has it
_ANSWERED_WITHIN = 600.0  # seconds
_WHY = "the demonstration: the evidence says so"
_FRACTION = 0.05  # of the rows that the defect changes


@dataclass(slots=True)
class Retirement:
    """The act, with what it needs and what it tells."""

    settings: Settings
    api: Api
    story: Story
    _weeks: Iterator[SamplePart] = field(default_factory=lambda: iter(_WEEKS))

    @property
    def runs(self) -> Runs:
        """Return the pipeline's DAGs."""
        return Runs(api=self.api, settings=self.settings, pipeline=PIPELINE)

    def compare_weeks(self) -> None:
        """Send a week, recompute, compare: as often as the gate asks for."""
        for _ in range(_RUNS):
            (verdict,) = show(self.settings, self.api, DemoStep(pipelines=(PIPELINE,), send=self._send))
            if verdict.exit_code:
                msg = f"Demonstration: expected paths that agree, got {verdict.verdict}: {verdict.sentence}"
                raise CutoverError(msg + f"\nHint: {verdict.report}")
            self.story.tell("comparison", f"{verdict.verdict}: {verdict.sentence}")

    def read_week(self) -> None:
        """Send a week and let the stream read it; in KAPPA nothing else is done with it."""
        self._send(self.settings)
        self.runs.read_all(since=datetime.now(UTC) + SETTLED)

    def move_on(self, target: str) -> None:
        """Start the cutover DAG, approve what it shows as a person would, by the REST API, and wait for its end."""
        dag = f"{PIPELINE}_cutover"
        self.runs.unpause(dag)
        run_id = self.runs.trigger(dag)

        def look(tell: Tell) -> str | None:
            states = self._states(dag, run_id)
            tell(f"approve is {states.get('approve')}", 0, None)
            return "failed" if self.api.state(dag, run_id) == "failed" else _is_asked(states)

        hint = self.runs.page(dag, run_id)
        if until(f"{dag}: waits to be asked", look, within=_ANSWERED_WITHIN, hint=hint) == "failed":
            raise self._explain(dag, run_id)
        self.runs.answer(dag, run_id, option="Approve", why=_WHY)
        self.story.tell("approval", f"{instance.ADMIN} approved the move to {target}: {_WHY}")
        if self.runs.wait(dag, run_id, title=f"moves to {target}") != "success":
            raise self._explain(dag, run_id)
        self.expect(target)
        self.story.tell("stage", f"{PIPELINE} is in {target}")

    def audit(self, *, expected: str) -> None:
        """Start the audit's DAG and check how it ends."""
        dag = f"{PIPELINE}_audit"
        self.runs.unpause(dag)
        run_id = self.runs.trigger(dag)
        if self.runs.wait(dag, run_id, title="audits a sample of windows") != expected:
            raise self._explain(dag, run_id)
        latest = Journal(self.settings, PIPELINE, WindowAuditRow).read()[-1]
        self.story.tell("audit", f"{latest.state}, seed {latest.seed}, epoch {latest.epoch}")

    def await_batch(self) -> None:
        """Wait until batch, which the audit's DAG started, serves the newest week again."""
        pipeline = catalogue.get(self.settings, PIPELINE)

        def look(tell: Tell) -> int | None:
            with views.connect(self.settings, pipeline) as connection:
                query = "SELECT count(*) FROM serving WHERE _state = 'final' AND _served_by <> 'batch'"
                ((remaining,),) = connection.execute(query).fetchall()
            tell(f"{remaining:,} final rows come from the stream", 0, None)
            return 1 if not remaining else None

        until(f"{PIPELINE}_batch: catches up", look, within=_ANSWERED_WITHIN, hint=self.runs.page(f"{PIPELINE}_batch"))
        self.story.tell("batch", "batch has caught up from the log and serves every final window")

    def _send(self, settings: Settings) -> None:
        send(settings, PIPELINE, catalogue.get(settings, PIPELINE).source.name, next(self._weeks))

    def _states(self, dag: str, run_id: str) -> dict[str, str]:
        tasks = self.api.get(f"dags/{dag}/dagRuns/{quote(run_id, safe='')}/taskInstances")["task_instances"]
        return {str(task["task_id"]): str(task["state"]) for task in tasks}

    def expect(self, stage: str) -> None:
        """Check the stage.

        Raises:
            CutoverError: It is another one.
        """
        found = str(stages.current_stage(self.settings, catalogue.get(self.settings, PIPELINE)))
        if found != stage:
            msg = f"Demonstration: expected {PIPELINE} in {stage}, it is in {found}."
            raise CutoverError(msg)

    def _explain(self, dag: str, run_id: str) -> CutoverError:
        failed = [name for name, state in self._states(dag, run_id).items() if state == "failed"]
        msg = f"DAG {dag}: expected another end, failed: {', '.join(failed) or 'none'}."
        return CutoverError(msg + f"\nHint: the task's log says why: {self.runs.page(dag, run_id)}")


def main(settings: Settings) -> int:
    """Do the act on an installation of its own; write the page, print one line, and leave all up."""
    started = time.monotonic()
    with show_spinner("starting") as tell:
        running = start.up(settings, broker_only=False, tell=tell)
    _refuse_begun(settings)
    story = Story(page=settings.reports_dir / "cutover-demo.md")
    act = Retirement(settings=settings, api=instance.api(settings, running.ports), story=story)
    story.tell("stage", f"{PIPELINE} is in LAMBDA: batch serves up to its horizon, the stream behind it")
    act.compare_weeks()
    run("selftest", PIPELINE, "--trials", "40", "--seed", "1")
    story.tell("self-test", "planted defects in copies of both sides: all were found")
    act.move_on("SHADOW")
    act.compare_weeks()
    act.move_on("KAPPA")
    act.read_week()
    act.audit(expected="success")
    act.read_week()
    rows = plant(settings, catalogue.get(settings, PIPELINE), column="delay", share=_FRACTION)
    story.tell("defect", f"{rows:,} rows of the newest days are made wrong, as a bad release would write them")
    act.audit(expected="failed")
    act.expect("LAMBDA")
    story.tell("stage", f"{PIPELINE} is back in LAMBDA, by the audit")
    act.await_batch()
    seconds = time.monotonic() - started
    page = story.write(seconds)
    sys.stdout.write(f"Batch was retired, a defect came and was found, batch is back, in {seconds:.0f} s: {page}\n")
    return 0


def _refuse_begun(settings: Settings) -> None:
    """Refuse an installation in which there is something: each comparison of the act needs a newer cut.

    Raises:
        DefinitionError: Names what is there.
    """
    if versions.read_events(settings, PIPELINE):
        msg = f"Demonstration: expected an installation without `{PIPELINE}`, its home {settings.home} has one."
        raise DefinitionError(msg + "\nHint: `make demo-cutover` begins with a new home of its own.")


def _is_asked(states: dict[str, str]) -> str | None:
    return "asked" if states.get("approve") in {"awaiting_input", "deferred"} else None
