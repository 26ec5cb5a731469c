"""OpenLineage events of a run from its start to its end, sent in the background; failures never affect the run."""

import queue
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, cast

from cutover.events import log
from cutover.pipeline_lake import PipelineLake
from cutover.settings import LineageSettings, Settings

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, OutputDataset

State = Literal["START", "RUNNING", "COMPLETE", "FAIL", "ABORT"]
END_STATES: tuple[State, ...] = ("COMPLETE", "FAIL", "ABORT")
FLUSH_SECONDS = 2.0  # how long a run waits at its end for unsent events
HTTP_SECONDS = 5.0
MAX_PENDING = 10
"""Maximum number of unsent events; further events of a driver are dropped."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Task = Callable[Concatenate[PipelineLake, Arguments], Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDatasets:
    """Datasets that a run read and wrote."""

    inputs: "tuple[InputDataset, ...]" = ()
    outputs: "tuple[OutputDataset, ...]" = ()
    facets: Mapping[str, Any] = field(default_factory=dict)  # properties of the run, plain values


Describe = Callable[[PipelineLake, Result], RunDatasets]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    state: State
    at: str
    datasets: RunDatasets


class LineageRun:
    """Sender of the events of one run, in a background thread; consecutive failures are logged once."""

    def __init__(self, settings: Settings, pipeline: str, task: str) -> None:
        self._settings, self._pipeline, self._task = settings, pipeline, task
        self._id, self._is_failing = str(uuid.uuid4()), False
        self._events: queue.Queue[_Event] = queue.Queue(maxsize=MAX_PENDING)
        self._thread: threading.Thread | None = None
        if is_enabled(settings):
            self._thread = threading.Thread(target=self._send_all, name="lineage", daemon=True)
            self._thread.start()

    def emit(self, state: State, describe: Callable[[], RunDatasets] = RunDatasets) -> None:
        """Emit an event with the state of the run; an end state waits up to `FLUSH_SECONDS` for unsent events.

        Args:
            state: State of the run.
            describe: Returns the datasets so far; called only if lineage is enabled. If it fails, that is logged, and
                the event has no datasets.
        """
        if self._thread is None:
            return
        try:
            event = _Event(state=state, at=datetime.now(UTC).isoformat(), datasets=self._describe(describe))
            self._events.put_nowait(event)
        except queue.Full:
            self._log_failure("the receiver is too slow")
        if state in END_STATES:
            self._thread.join(FLUSH_SECONDS)
            if self._thread.is_alive():
                self._log_failure(f"no answer within {FLUSH_SECONDS:g} s")

    def _describe(self, describe: Callable[[], RunDatasets]) -> RunDatasets:
        try:
            return describe()
        except Exception as error:  # noqa: BLE001 -- the state is emitted even without datasets
            self._log_failure(type(error).__name__)
            return RunDatasets()

    def _send_all(self) -> None:
        """Send events until an end state."""
        client = None
        while True:
            event = self._events.get()
            try:
                client = client or make_client(self._settings.lineage)
                client.emit(self._make_event(event))
                self._is_failing = False
            except Exception as error:  # noqa: BLE001 -- lineage must not fail the run
                self._log_failure(describe_failure(error))
            self._events.task_done()
            if event.state in END_STATES:
                return

    def _log_failure(self, failure: str) -> None:
        if not self._is_failing:
            log.warning("lineage_not_sent", pipeline=self._pipeline, task=self._task, error=failure)
        self._is_failing = True

    def _make_event(self, event: _Event) -> Any:
        from cutover.lineage.datasets import make_run_event  # noqa: PLC0415 -- the client takes a second to load

        job = f"{self._pipeline}.{self._task}"
        datasets = event.datasets
        return make_run_event(
            state=event.state,
            at=event.at,
            run_id=self._id,
            job=(self._settings.lineage.namespace, job),
            inputs=datasets.inputs,
            outputs=datasets.outputs,
            facets=datasets.facets,
        )


def is_enabled(settings: Settings) -> bool:
    """Return whether the settings contain a file or a URL for events."""
    return settings.lineage.file is not None or settings.lineage.url is not None


@contextmanager
def track_run(run: LineageRun, describe: Callable[[], RunDatasets]) -> Iterator[None]:
    """Emit the start and the end state of the block."""
    run.emit("START")
    try:
        yield
    except BaseException as error:
        run.emit(decide_end_state(error), describe)
        raise
    run.emit("COMPLETE", describe)


def decide_end_state(error: BaseException) -> State:
    """Return ABORT for an interrupt by the user, FAIL for other errors."""
    return "ABORT" if isinstance(error, KeyboardInterrupt) else "FAIL"


def emit_lineage(task: str, describe: Describe[Result]) -> Callable[[Task[Arguments, Result]], Task[Arguments, Result]]:
    """Return a decorator that emits lineage events of each run of a task.

    Args:
        task: Last part of the job name, after the pipeline name.
        describe: Returns the datasets of a run from its result.
    """

    def add(function: Task[Arguments, Result]) -> Task[Arguments, Result]:
        @wraps(function)
        def run(lake: PipelineLake, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            lineage_run, results = LineageRun(lake.settings, lake.name, task), list[Result]()
            with track_run(lineage_run, lambda: describe(lake, results[0]) if results else RunDatasets()):
                results.append(function(lake, *args, **kwargs))
            return results[0]

        return cast("Task[Arguments, Result]", run)  # `wraps` changes the declared type

    return add


def make_client(lineage_settings: LineageSettings) -> "OpenLineageClient":
    """Create a client for the file or URL of the settings, creating the folder of the file.

    Raises:
        OSError: The folder cannot be created.
        ImportError: The client is not installed.
    """
    from openlineage.client import OpenLineageClient  # noqa: PLC0415 -- takes a second to load
    from openlineage.client.transport.file import FileConfig, FileTransport  # noqa: PLC0415
    from openlineage.client.transport.http import HttpConfig, HttpTransport  # noqa: PLC0415

    if lineage_settings.file is not None:
        path = lineage_settings.file.resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        return OpenLineageClient(transport=FileTransport(FileConfig(log_file_path=str(path), append=True)))
    options = {"url": str(lineage_settings.url), "timeout": HTTP_SECONDS, "retry": {"total": 0}}
    return OpenLineageClient(transport=HttpTransport(HttpConfig.from_dict(options)))


def describe_failure(error: Exception) -> str:
    """Describe a failure without the message of the error, which may contain a URL with a password."""
    answer = getattr(error, "response", None)
    status = getattr(answer, "status_code", None)
    return type(error).__name__ + (f", status {status}" if status is not None else "")
