"""Second demonstration: retire batch on evidence, plant a defect, detect it by an audit, and roll back to batch.

The defect is like that of a faulty release: wrong rows of the latest windows that only a comparison reveals.
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from cutover.counts import count_clause
from cutover.definition.loading import catalogue
from cutover.engine import queries
from cutover.errors import CutoverError, DefinitionError, LakeError
from cutover.infra import installation
from cutover.infra.airflow import instance
from cutover.infra.airflow.instance import Api
from cutover.infra.demo.demonstration import PIPELINE, SETTLED, DemoStep, SamplePart, run_cutover, run_step, send_part
from cutover.infra.demo.runs import Runs, UpdateProgress, wait_for
from cutover.lake.control import served, versions
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import WindowAuditRow
from cutover.lake.serving import views
from cutover.lake.tables import checksums, commits, data_files, delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.output.console import show_spinner
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier
from cutover.settings import Settings
from cutover.timestamps import to_micros

_DAYS = 5  # of final windows


def plant_defect(lake: PipelineLake, *, column: str, share: float) -> int:
    """Change a share of the partial aggregates of the latest final windows, in one commit; return their number.

    Only for the demonstration and for drills. File names and checksum weights are valid, so that the defect is visible
    only to a comparison with the log.

    Args:
        lake: Pipeline whose epoch log is changed.
        column: Numeric column of the partial aggregates, which is increased by one.
        share: Share of the rows of the latest days, sampled by the hash of window and key.

    Raises:
        LakeError: There is no stream, or no final window.
    """
    version = versions.find_current_version(lake)
    if version is None:
        msg = f"Pipeline `{lake.name}`: expected a stream to plant a defect in, found none."
        raise LakeError(msg)
    with views.open_views(lake) as connection:
        query = "SELECT epoch_us(max(window_start)) FROM streaming WHERE _state = 'final'"
        ((latest,),) = connection.execute(query).fetchall()
    table = delta.open_table(version.uri)
    with queries.open_duckdb() as connection:
        delta.bind(connection, "stored", table)
        connection.execute("CREATE TEMP TABLE rows AS SELECT * FROM stored WHERE _kind = 'partial'")
        column_name, row_key = identifier(column), ", ".join(["window_start", *map(identifier, lake.pipeline.key)])
        where_clause = (
            f"WHERE _class = 'accepted' AND {column_name} IS NOT NULL AND epoch_us(window_start) > ?"
            f" AND hash({row_key}) % 1000 < {int(share * 1000)}"
        )
        cutoff = int(latest) - _DAYS * 86_400_000_000
        ((changed_count,),) = connection.execute(f"SELECT count(*) FROM rows {where_clause}", [cutoff]).fetchall()  # noqa: S608 -- ours
        connection.execute(f"UPDATE rows SET {column_name} = {column_name} + 1 {where_clause}", [cutoff])  # noqa: S608 -- ours
        rows = queries.query_table(connection, "SELECT * FROM rows").cast(epoch_log_schema(lake.pipeline))
    _replace_partials(table.table_uri, rows)
    return int(changed_count)


def _replace_partials(uri: str, rows: pa.Table) -> None:
    """Replace all files of partial aggregates with one file of `rows`, whose name has their checksum weight."""
    table = delta.open_table(uri)
    partial_files = [action for action in delta.actions(table) if action["partition._kind"] == "partial"]
    weight = checksums.weight_word(checksums.total(str(action["path"]) for action in partial_files))
    file_schema = pa.schema([field for field in delta.read_schema(table) if field.name != "_kind"])
    new_files = data_files.write_data_file(
        uri,
        rows.drop_columns(["_kind"]).cast(file_schema),
        checksums.new_stem("planted", weight),
        partition={"_kind": "partial"},
    )
    commits.replace(table, partial_files, [new_files])


_FIRST_END, _WEEK, _COUNT = datetime(2013, 1, 8, tzinfo=UTC), timedelta(days=7), 8
_ENDS = [to_micros(_FIRST_END + n * _WEEK) for n in range(_COUNT)]
_WEEKS = [SamplePart(start=start, end=end) for start, end in zip([None, *_ENDS], _ENDS, strict=False)]
_EVIDENCE_RUNS = 3  # comparisons before each move, as the definition's policy requires
_TIMEOUT = 600.0  # seconds
_REASON = "the demonstration: the evidence says so"
_DEFECT_SHARE = 0.05  # of the rows of the latest days


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryLine:
    """Event of the demonstration, with its time."""

    at: datetime
    seconds: float  # since the start
    kind: str
    text: str


@dataclass(slots=True, kw_only=True)
class Story:
    """Events of the demonstration in order, printed as they happen and written to a page at the end."""

    page: Path
    started_at: float = field(default_factory=time.monotonic)
    lines: list[StoryLine] = field(default_factory=list)

    def record(self, kind: str, text: str) -> None:
        """Append and print an event that happened now."""
        line = StoryLine(at=datetime.now(UTC), seconds=time.monotonic() - self.started_at, kind=kind, text=text)
        self.lines.append(line)
        sys.stdout.write(f"{line.seconds:5.0f} s  {kind}: {text}\n")
        sys.stdout.flush()

    def write(self, seconds: float) -> Path:
        """Write the page as Markdown and return its path."""
        self.page.parent.mkdir(parents=True, exist_ok=True)
        self.page.write_text(describe_story(self.lines, seconds), encoding="utf-8")
        return self.page


def describe_story(lines: list[StoryLine], seconds: float) -> str:
    """Format the events as a page with their times and the total duration."""
    rows = [f"| {line.at:%H:%M:%S} | {line.seconds:.0f} | {line.kind} | {_format_cell(line.text)} |" for line in lines]
    head = ["# Batch retired and restored", "", f"Eight weeks of flights, accelerated, in {seconds:.0f} s.", ""]
    return "\n".join([*head, "| at (UTC) | second | event | |", "|---|---|---|---|", *rows, ""])


def _format_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


@dataclass(slots=True)
class Retirement:
    """Steps of the second demonstration on one installation."""

    settings: Settings
    api: Api
    story: Story
    _weeks: Iterator[SamplePart] = field(default_factory=lambda: iter(_WEEKS))

    @property
    def runs(self) -> Runs:
        """DAGs of the pipeline."""
        return Runs(api=self.api, settings=self.settings, pipeline=PIPELINE)

    def compare_weeks(self) -> None:
        """Send a week, recompute and compare it, as many times as the gate requires."""
        for _ in range(_EVIDENCE_RUNS):
            (verdict,) = run_step(self.settings, self.api, DemoStep(pipelines=(PIPELINE,), send=self._send))
            if verdict.exit_code:
                msg = f"Demonstration: expected paths that agree, got {verdict.verdict}: {verdict.sentence}"
                raise CutoverError(msg + f"\nHint: {verdict.report}")
            self.story.record("comparison", f"{verdict.verdict}: {verdict.sentence}")

    def read_week(self) -> None:
        """Send a week and wait until the stream has read it, which is all that happens in KAPPA."""
        self._send(self.settings)
        self.runs.read_all(not_before=datetime.now(UTC) + SETTLED)

    def advance(self, target: str) -> None:
        """Trigger the cutover DAG, approve its proposal by the REST API as a person would, and wait for its end."""
        dag = f"{PIPELINE}_cutover"
        self.runs.unpause(dag)
        run_id = self.runs.trigger(dag)

        def find_state(update_progress: UpdateProgress) -> str | None:
            state = self._task_states(dag, run_id).get("approve")
            update_progress(f"approve is {state}", 0, None)
            if self.api.state(dag, run_id) == "failed":
                return "failed"
            return state if state in {"awaiting_input", "deferred"} else None

        hint = self.runs.page(dag, run_id)
        if wait_for(f"{dag}: waits for its approval request", find_state, timeout=_TIMEOUT, hint=hint) == "failed":
            raise self._make_error(dag, run_id)
        self.runs.answer(dag, run_id, option="Approve", reason=_REASON)
        self.story.record("approval", f"{instance.ADMIN} approved the move to {target}: {_REASON}")
        if self.runs.wait(dag, run_id, title=f"moves to {target}") != "success":
            raise self._make_error(dag, run_id)
        self.check_stage(target)
        self.story.record("stage", f"{PIPELINE} is in {target}")

    def audit(self, *, expected: str) -> None:
        """Trigger the audit DAG and check that it ends with the state `expected`."""
        dag = f"{PIPELINE}_audit"
        self.runs.unpause(dag)
        run_id = self.runs.trigger(dag)
        if self.runs.wait(dag, run_id, title="audits a sample of windows") != expected:
            raise self._make_error(dag, run_id)
        latest = Journal(self.settings, PIPELINE, WindowAuditRow).read()[-1]
        self.story.record("audit", f"{latest.state}, seed {latest.seed}, epoch {latest.epoch}")

    def await_batch(self) -> None:
        """Wait until batch, which the audit DAG has triggered, serves all final windows again."""
        pipeline = catalogue.get(self.settings, PIPELINE)

        def is_served_by_batch(update_progress: UpdateProgress) -> bool | None:
            with views.open_views(PipelineLake(self.settings, pipeline)) as connection:
                query = "SELECT count(*) FROM serving WHERE _state = 'final' AND _served_by <> 'batch'"
                ((remaining,),) = connection.execute(query).fetchall()
            update_progress(f"{count_clause(remaining, 'final row', 'is', 'are')} served from the stream", 0, None)
            return True if not remaining else None

        hint = self.runs.page(f"{PIPELINE}_batch")
        wait_for(f"{PIPELINE}_batch: catches up", is_served_by_batch, timeout=_TIMEOUT, hint=hint)
        self.story.record("batch", "batch has caught up from the log and serves every final window")

    def _send(self, settings: Settings) -> None:
        send_part(settings, PIPELINE, catalogue.get(settings, PIPELINE).source.name, next(self._weeks))

    def _task_states(self, dag: str, run_id: str) -> dict[str, str]:
        tasks = self.api.get(f"dags/{dag}/dagRuns/{quote(run_id, safe='')}/taskInstances")["task_instances"]
        return {str(task["task_id"]): str(task["state"]) for task in tasks}

    def check_stage(self, stage: str) -> None:
        """Check that the pipeline is in a stage.

        Raises:
            CutoverError: It is in another one.
        """
        current = str(served.current_stage(PipelineLake(self.settings, catalogue.get(self.settings, PIPELINE))))
        if current != stage:
            msg = f"Demonstration: expected {PIPELINE} in {stage}, it is in {current}."
            raise CutoverError(msg)

    def _make_error(self, dag: str, run_id: str) -> CutoverError:
        failed = [name for name, state in self._task_states(dag, run_id).items() if state == "failed"]
        msg = f"DAG {dag}: expected another end, failed tasks: {', '.join(failed) or 'none'}."
        return CutoverError(msg + f"\nHint: the task's log has the reason: {self.runs.page(dag, run_id)}")


def main(settings: Settings) -> int:
    """Run the demonstration on a new installation, write its page, and leave the installation running."""
    started = time.monotonic()
    with show_spinner("starting") as report_progress:
        running = installation.start_installation(settings, broker_only=False, report_progress=report_progress)
    _check_new_installation(settings)
    story = Story(page=settings.reports_dir / "cutover-demo.md")
    act = Retirement(settings=settings, api=instance.api(settings, running.ports), story=story)
    story.record("stage", f"{PIPELINE} is in LAMBDA: batch serves up to its horizon, the stream serves later windows")
    act.compare_weeks()
    run_cutover("selftest", PIPELINE, "--trials", "40", "--seed", "1")
    story.record("self-test", "defects planted in copies of both sides: all were detected")
    act.advance("SHADOW")
    act.compare_weeks()
    act.advance("KAPPA")
    act.read_week()
    act.audit(expected="success")
    act.read_week()
    rows = plant_defect(PipelineLake(settings, catalogue.get(settings, PIPELINE)), column="delay", share=_DEFECT_SHARE)
    story.record(
        "defect", f"{count_clause(rows, 'row of the latest days', 'is', 'are')} changed, as a faulty release could"
    )
    act.audit(expected="failed")
    act.check_stage("LAMBDA")
    story.record("stage", f"{PIPELINE} is back in LAMBDA, by the audit")
    act.await_batch()
    seconds = time.monotonic() - started
    page = story.write(seconds)
    sys.stdout.write(f"Batch was retired, a defect was detected, batch serves again, in {seconds:.0f} s: {page}\n")
    return 0


def _check_new_installation(settings: Settings) -> None:
    """Check that the pipeline has not run before, because each comparison needs a later cut.

    Raises:
        DefinitionError: The installation has a stream of the pipeline.
    """
    if versions.read_version_events(settings, PIPELINE):
        msg = f"Demonstration: expected an installation without `{PIPELINE}`, its home {settings.home} has one."
        raise DefinitionError(msg + "\nHint: `make demo-cutover` uses a new home.")
