"""DAG runs of one pipeline, triggered and watched through Airflow's REST API; waits show their progress."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

from cutover import files
from cutover.clock import poll_until
from cutover.counts import count_noun
from cutover.errors import CutoverError
from cutover.infra.airflow.instance import FINAL, AirflowError, Api
from cutover.output.console import show_bar
from cutover.process import is_alive, parse_identity
from cutover.settings import Settings

POLL = 1.0  # seconds
UpdateProgress = Callable[[str, int, int | None], None]  # note, completed, total
Result = TypeVar("Result")


def wait_for(title: str, poll: Callable[[UpdateProgress], Result | None], *, timeout: float, hint: str) -> Result:
    """Poll until there is a result, show the progress, and return the result.

    Args:
        title: Condition that is waited for, shown to the user.
        poll: Returns the result, or None if there is none yet, and reports its progress.
        timeout: Seconds.
        hint: Next step of the user after a timeout.

    Raises:
        CutoverError: There was no result in time.
    """
    with show_bar(title, first_line_after=0) as update:
        result = poll_until(
            lambda: poll(lambda note, completed, total: update(completed, total, f"{title}: {note}")),
            timeout=timeout,
            interval=POLL,
        )
    if result is not None:
        return result
    msg = f"{title}: expected an end within {timeout:.0f} s, got none.\nHint: {hint}"
    raise CutoverError(msg)


PARSE_TIMEOUT = 120.0  # seconds
START_TIMEOUT = 240.0
READ_TIMEOUT = 1800.0
RUN_TIMEOUT = 3600.0
ANSWER_TIMEOUT = 180.0
ANSWER_DELAY = 5.0
MAX_API_ERRORS = 10  # in a row


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """Verdict of a run of the reconcile DAG, from its XComs."""

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
        """Trigger the stream's DAG unless the stream is running, and wait until its driver is alive.

        Raises:
            CutoverError: The run failed, or the driver did not start in time.
        """
        dag = f"{self.pipeline}_stream"
        self.unpause(dag)
        hint = f"see the task's log, {self.page(dag)}"
        run: str | None = None

        def is_started(update_progress: UpdateProgress) -> bool | None:
            nonlocal run
            if self._driver_is_alive():
                return True
            active_runs = self._runs(dag, "running", "queued")
            if run is not None and not active_runs:
                self._raise_failure(dag, run)
            if not active_runs:
                run = self.trigger(dag)
            update_progress("the driver starts", 0, None)
            return None

        _wait_for(f"{dag}: starts the stream", is_started, timeout=START_TIMEOUT, hint=hint)

    def read_all(self, *, not_before: datetime) -> int:
        """Wait until the stream has read the whole log; return its latest epoch.

        Args:
            not_before: Time of the earliest heartbeat that covers all records of interest.

        Raises:
            CutoverError: The run of the stream's DAG failed, or reading takes too long.
        """
        dag, largest_lag = f"{self.pipeline}_stream", 0

        def find_epoch(update_progress: UpdateProgress) -> int | None:
            nonlocal largest_lag
            beat = self.heartbeat()
            lag, epoch = beat.get("lag"), beat.get("epoch")
            if not isinstance(lag, int) or datetime.fromisoformat(str(beat["at"])) <= not_before:
                update_progress("starting", 0, None)
            else:
                largest_lag = max(largest_lag, lag)
                update_progress(
                    f"epoch {epoch}, {count_noun(lag, 'offset')} unread", largest_lag - lag, largest_lag or None
                )
                if lag == 0 and isinstance(epoch, int):
                    return epoch
            if not self._runs(dag, "running", "queued"):
                self._raise_failure(dag, str(self._runs(dag)[0]["dag_run_id"]))
            return None

        hint = f"`cutover watch {self.pipeline}`"
        return _wait_for(f"{dag}: reads the log", find_epoch, timeout=READ_TIMEOUT, hint=hint)

    def recompute(self) -> str:
        """Trigger the batch DAG, wait for its end, and return the id of the run.

        Raises:
            CutoverError: The run failed.
        """
        dag = f"{self.pipeline}_batch"
        self.unpause(dag)
        run = self.trigger(dag)
        if self.wait(dag, run, title="recomputes every window from the log") != "success":
            self._raise_failure(dag, run)
        return run

    def wait_verdict(self, batch_run: str) -> RunVerdict:
        """Wait for the comparison that the asset event of a batch run has triggered, and return its verdict.

        Raises:
            CutoverError: The comparison ended without a report.
        """
        dag = f"{self.pipeline}_reconcile"
        self.unpause(dag)
        run = _wait_for(
            f"{dag}: waits for the batch tables",
            lambda update_progress: self._find_triggered_run(batch_run, update_progress),
            timeout=START_TIMEOUT,
            hint=f"see {self.page(dag)}",
        )
        self.wait(dag, run, title="compares both sides")
        verdict = self._read_verdict(dag, run)
        if verdict is None:
            self._raise_failure(dag, run)
            raise AssertionError
        return verdict

    def trigger(self, dag: str) -> str:
        """Trigger a run and return its id."""
        return self.api.trigger(dag)

    def unpause(self, dag: str) -> None:
        """Unpause a DAG as soon as Airflow has parsed it."""

        def is_parsed(update_progress: UpdateProgress) -> bool | None:
            update_progress("Airflow parses the definitions", 0, None)
            return self.api.has_dag(dag) or None

        hint = f"see the import errors on {self.api.address}"
        _wait_for(f"{dag}: waits for Airflow", is_parsed, timeout=PARSE_TIMEOUT, hint=hint)
        self.api.patch(f"dags/{dag}", {"is_paused": False})

    def wait(self, dag: str, run: str, *, title: str) -> str:
        """Wait for the end of a run, show its tasks meanwhile, and return its final state."""

        def find_final_state(update_progress: UpdateProgress) -> str | None:
            state = self.api.state(dag, run)
            if state in FINAL:
                return state
            tasks = self._tasks(dag, run)
            running = ", ".join(sorted({str(task["task_id"]) for task in tasks if task["state"] == "running"}))
            completed = sum(task["state"] in FINAL for task in tasks)
            update_progress(f"{running or state}, tasks done", completed, len(tasks) or None)
            return None

        hint = f"see {self.page(dag, run)}"
        return _wait_for(f"{dag}: {title}", find_final_state, timeout=RUN_TIMEOUT, hint=hint)

    def answer(self, dag: str, run: str, *, option: str, reason: str) -> None:
        """Answer the approval request of a run through the REST API, once per try.

        Airflow 3.3.2 fails a try that is answered before the scheduler has seen it wait, about once a second. No
        person answers that fast. Airflow retries the task, which sends another request.

        Raises:
            CutoverError: No answer was accepted, or the run ended before.
        """
        task = f"dags/{dag}/dagRuns/{quote(run, safe='')}/taskInstances/approve"
        answered_try = -1

        def find_final_state(update_progress: UpdateProgress) -> str | None:
            nonlocal answered_try
            approval = self.api.get(task)
            update_progress(f"approve is {approval['state']}", 0, None)
            if approval["state"] in {"awaiting_input", "deferred"} and approval["try_number"] != answered_try:
                time.sleep(ANSWER_DELAY)
                self.api.patch(f"{task}/-1/hitlDetails", {"chosen_options": [option], "params_input": {"why": reason}})
                answered_try = approval["try_number"]
            return str(approval["state"]) if approval["state"] in FINAL else None

        hint = self.page(dag, run)
        if _wait_for(f"{dag}: is answered", find_final_state, timeout=ANSWER_TIMEOUT, hint=hint) != "success":
            self._raise_failure(dag, run)

    def page(self, dag: str, run: str | None = None) -> str:
        """Return the address of a DAG, or of one of its runs, in Airflow's UI."""
        return f"{self.api.address}/dags/{dag}" + (f"/runs/{quote(run, safe='')}" if run else "")

    def heartbeat(self) -> dict[str, Any]:
        """Return the driver's last heartbeat; empty if there is none."""
        return dict(files.read_json_file(self.settings.run_dir / self.pipeline / "heartbeat.json") or {})

    def _driver_is_alive(self) -> bool:
        identity = parse_identity(self.heartbeat())
        return identity is not None and is_alive(identity)

    def _runs(self, dag: str, *states: str) -> list[Mapping[str, Any]]:
        dag_runs = self.api.get(f"dags/{dag}/dagRuns", state=list(states), order_by="-run_after", limit=5)
        return list(dag_runs["dag_runs"])

    def _tasks(self, dag: str, run: str) -> list[Mapping[str, Any]]:
        return list(self.api.get(f"dags/{dag}/dagRuns/{quote(run, safe='')}/taskInstances")["task_instances"])

    def _find_triggered_run(self, batch_run: str, update_progress: UpdateProgress) -> str | None:
        update_progress("waits for the asset event", 0, None)
        source = {"source_dag_id": f"{self.pipeline}_batch", "source_run_id": batch_run}
        events = self.api.get("assets/events", **source)["asset_events"]
        runs = [run["run_id"] for event in events for run in event["created_dagruns"]]
        return str(runs[0]) if runs else None

    def _read_verdict(self, dag: str, run: str) -> RunVerdict | None:
        """Return the latest verdict among a run's mapped tasks, one per triggering event; None if there is none."""
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

    def _raise_failure(self, dag: str, run: str) -> None:
        state = self.api.state(dag, run)
        error = self.heartbeat().get("error") if dag.endswith("_stream") else None
        msg = f"DAG {dag}, run {run}: expected success, got {state}."
        error_text = f"\n{error}" if error else ""
        hint = f"\nHint: the task's log has the reason: {self.page(dag, run)}"
        raise CutoverError(msg + error_text + hint)


def _wait_for(title: str, poll: Callable[[UpdateProgress], Result | None], *, timeout: float, hint: str) -> Result:
    """Wait for a result as `waiting.wait_for` does, and tolerate sporadic errors of Airflow's API.

    Airflow answers with 500 while a run that an asset event has created is queued, because it has no start date yet.
    """
    errors = 0

    def poll_tolerantly(update_progress: UpdateProgress) -> Result | None:
        nonlocal errors
        try:
            result = poll(update_progress)
        except AirflowError:
            errors += 1
            if errors >= MAX_API_ERRORS:
                raise
            return None
        errors = 0
        return result

    return wait_for(title, poll_tolerantly, timeout=timeout, hint=hint)
