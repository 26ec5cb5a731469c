"""The demonstration's work, done by the DAGs: what is asked of Airflow, and what it answers."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from urllib.parse import quote

from cutover import files
from cutover.errors import CutoverError
from cutover.infra.airflow.api import FINAL, AirflowError, Api
from cutover.infra.waiting import Found, Tell, until
from cutover.process import is_alive, parse_identity
from cutover.settings import Settings

PARSED_WITHIN = 120.0  # seconds
STARTED_WITHIN = 240.0
READ_WITHIN = 1800.0
RUN_WITHIN = 3600.0
REFUSALS = 10  # in a row
ASKED_SECONDS = 5.0
ANSWERED_WITHIN = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """What a run of the reconcile DAG said, by its XComs."""

    verdict: str
    exit_code: int
    sentence: str
    report: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """The DAGs of one pipeline, driven through Airflow's REST API."""

    api: Api
    settings: Settings
    pipeline: str

    def start_stream(self) -> None:
        """Trigger the stream's DAG unless the stream runs, and wait until its driver lives.

        Raises:
            CutoverError: The run failed, or no driver came.
        """
        dag = f"{self.pipeline}_stream"
        self.unpause(dag)
        hint = f"look at the task's log, {self.page(dag)}"
        run: str | None = None

        def look(tell: Tell) -> bool | None:
            nonlocal run
            if self._driver_lives():
                return True
            active = self._runs(dag, "running", "queued")
            if run is not None and not active:
                self._explain(dag, run)
            if not active:
                run = self.trigger(dag)
            tell("the driver starts", 0, None)
            return None

        _await(f"{dag}: starts the stream", look, within=STARTED_WITHIN, hint=hint)

    def read_all(self, *, since: datetime) -> int:
        """Wait until the stream has nothing unread; return its newest epoch.

        Args:
            since: Heartbeats from before do not know of the newest records.

        Raises:
            CutoverError: The run of the stream's DAG failed, or reading takes too long.
        """
        dag, largest_lag = f"{self.pipeline}_stream", 0

        def look(tell: Tell) -> int | None:
            nonlocal largest_lag
            beat = self.heartbeat()
            lag, epoch = beat.get("lag"), beat.get("epoch")
            if not isinstance(lag, int) or datetime.fromisoformat(str(beat["at"])) <= since:
                tell("starting", 0, None)
            else:
                largest_lag = max(largest_lag, lag)
                tell(f"epoch {epoch}, {lag:,} offsets unread", largest_lag - lag, largest_lag or None)
                if lag == 0 and isinstance(epoch, int):
                    return epoch
            if not self._runs(dag, "running", "queued"):
                self._explain(dag, str(self._runs(dag)[0]["dag_run_id"]))
            return None

        return _await(f"{dag}: reads the log", look, within=READ_WITHIN, hint=f"`cutover watch {self.pipeline}`")

    def recompute(self) -> str:
        """Trigger the batch DAG, wait for its end, and return the id of the run.

        Raises:
            CutoverError: It failed.
        """
        dag = f"{self.pipeline}_batch"
        self.unpause(dag)
        run = self.trigger(dag)
        if self.wait(dag, run, title="recomputes every window from the log") != "success":
            self._explain(dag, run)
        return run

    def verdict(self, batch_run: str) -> RunVerdict:
        """Wait for the comparison that a batch run triggered by its asset event, and return what it said.

        Raises:
            CutoverError: It ended without a report.
        """
        dag = f"{self.pipeline}_reconcile"
        self.unpause(dag)
        hint = f"look at {self.page(dag)}"
        title = f"{dag}: waits for the batch tables"
        run = _await(title, lambda tell: self._find_triggered_run(batch_run, tell), within=STARTED_WITHIN, hint=hint)
        self.wait(dag, run, title="compares both sides")
        found = self._read_verdict(dag, run)
        if found is None:
            self._explain(dag, run)
            raise AssertionError
        return found

    def trigger(self, dag: str) -> str:
        """Start a run by hand and return its id."""
        return self.api.trigger(dag)

    def unpause(self, dag: str) -> None:
        """Unpause a DAG as soon as Airflow has read it."""

        def look(tell: Tell) -> bool | None:
            tell("Airflow reads the definitions", 0, None)
            return self.api.has_dag(dag) or None

        hint = f"look for import errors on {self.api.address}"
        _await(f"{dag}: waits for Airflow", look, within=PARSED_WITHIN, hint=hint)
        self.api.patch(f"dags/{dag}", {"is_paused": False})

    def wait(self, dag: str, run: str, *, title: str) -> str:
        """Return the state in which a run ended, showing its tasks meanwhile."""

        def look(tell: Tell) -> str | None:
            state = self.api.state(dag, run)
            if state in FINAL:
                return state
            tasks = self._tasks(dag, run)
            at_work = sorted({str(task["task_id"]) for task in tasks if task["state"] == "running"})
            final_count = sum(task["state"] in FINAL for task in tasks)
            tell(
                f"{', '.join(at_work) or state}, {final_count} of {len(tasks)} tasks done",
                final_count,
                len(tasks) or None,
            )
            return None

        return _await(f"{dag}: {title}", look, within=RUN_WITHIN, hint=f"look at {self.page(dag, run)}")

    def answer(self, dag: str, run: str, *, option: str, why: str) -> None:
        """Answer the task `approve` of a run that waits for a person, by the REST API; again where it is asked again.

        Airflow 3.3.2 fails the try of a task that is answered before its scheduler has seen it wait, which it does each
        second or so: no person is that quick. That task is tried again, and asks again.

        Raises:
            CutoverError: It took no answer, or the run ended before one.
        """
        task = f"dags/{dag}/dagRuns/{quote(run, safe='')}/taskInstances/approve"
        answered = -1

        def look(tell: Tell) -> str | None:
            nonlocal answered
            task_instances = self.api.get(task)
            tell(f"approve is {task_instances['state']}", 0, None)
            if task_instances["state"] in {"awaiting_input", "deferred"} and task_instances["try_number"] != answered:
                time.sleep(ASKED_SECONDS)
                self.api.patch(f"{task}/-1/hitlDetails", {"chosen_options": [option], "params_input": {"why": why}})
                answered = task_instances["try_number"]
            return str(task_instances["state"]) if task_instances["state"] in FINAL else None

        if _await(f"{dag}: is answered", look, within=ANSWERED_WITHIN, hint=self.page(dag, run)) != "success":
            self._explain(dag, run)

    def page(self, dag: str, run: str | None = None) -> str:
        """Address in Airflow's UI, of a DAG or of one run."""
        return f"{self.api.address}/dags/{dag}" + (f"/runs/{quote(run, safe='')}" if run else "")

    def heartbeat(self) -> dict[str, Any]:
        """Return the driver's last heartbeat; empty if there is none."""
        return dict(files.read_json(self.settings.run_dir / self.pipeline / "heartbeat.json") or {})

    def _driver_lives(self) -> bool:
        identity = parse_identity(self.heartbeat())
        return identity is not None and is_alive(identity)

    def _runs(self, dag: str, *states: str) -> list[Mapping[str, Any]]:
        dag_runs = self.api.get(f"dags/{dag}/dagRuns", state=list(states), order_by="-run_after", limit=5)
        return list(dag_runs["dag_runs"])

    def _tasks(self, dag: str, run: str) -> list[Mapping[str, Any]]:
        return list(self.api.get(f"dags/{dag}/dagRuns/{quote(run, safe='')}/taskInstances")["task_instances"])

    def _find_triggered_run(self, batch_run: str, tell: Tell) -> str | None:
        tell("waits for the asset event", 0, None)
        source = {"source_dag_id": f"{self.pipeline}_batch", "source_run_id": batch_run}
        events = self.api.get("assets/events", **source)["asset_events"]
        runs = [run["run_id"] for event in events for run in event["created_dagruns"]]
        return str(runs[0]) if runs else None

    def _read_verdict(self, dag: str, run: str) -> RunVerdict | None:
        """Return the newest verdict among a run's mapped tasks, one for each triggering event."""
        base = f"dags/{dag}/dagRuns/{quote(run, safe='')}/taskInstances"
        tasks = [task for task in self._tasks(dag, run) if task["task_id"] == "compare"]
        for index in sorted((int(t["map_index"]) for t in tasks), reverse=True):
            entries = f"{base}/compare/xcomEntries"
            keys = {entry["key"] for entry in self.api.get(entries, map_index=index)["xcom_entries"]}
            names = [field.name for field in fields(RunVerdict)]
            if keys.issuperset(names):
                values = {n: self.api.get(f"{entries}/{n}", map_index=index, stringify=False)["value"] for n in names}
                return RunVerdict(**values)
        return None

    def _explain(self, dag: str, run: str) -> None:
        state = self.api.state(dag, run)
        error = self.heartbeat().get("error") if dag.endswith("_stream") else None
        msg = f"DAG {dag}, run {run}: expected success, got {state}."
        error_text = f"\n{error}" if error else ""
        hint = f"\nHint: the task's log says why: {self.page(dag, run)}"
        raise CutoverError(msg + error_text + hint)


def _await(title: str, look: Callable[[Tell], Found | None], *, within: float, hint: str) -> Found:
    """Return what `look` finds; a refusal now and then is waited out.

    Airflow answers with 500 while a run that an asset event made is queued: it has no start date yet.
    """
    refusals = 0

    def ask_again(tell: Tell) -> Found | None:
        nonlocal refusals
        try:
            result = look(tell)
        except AirflowError:
            refusals += 1
            if refusals >= REFUSALS:
                raise
            return None
        refusals = 0
        return result

    return until(title, ask_again, within=within, hint=hint)
