"""One run of one of our jobs, told from its start to its end; nothing that happens here can end it or hold it up."""

import queue
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, cast

from cutover.definition.model.pipeline import Pipeline
from cutover.events import log
from cutover.settings import LineageSettings, Settings

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, OutputDataset

State = Literal["START", "RUNNING", "COMPLETE", "FAIL", "ABORT"]
END_STATES: tuple[State, ...] = ("COMPLETE", "FAIL", "ABORT")
FLUSH_SECONDS = 2.0  # seconds that a run waits at its end for what is not sent yet
HTTP_SECONDS = 5.0
MAX_PENDING = 10
"""Events that may wait for a listener; a driver's further ones are left out."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Task = Callable[Concatenate[Settings, Pipeline, Arguments], Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDatasets:
    """What a run read and wrote."""

    inputs: "tuple[InputDataset, ...]" = ()
    outputs: "tuple[OutputDataset, ...]" = ()
    facets: Mapping[str, Any] = field(default_factory=dict)  # of the run, plain values


Describe = Callable[[Settings, Pipeline, Result], RunDatasets]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    state: State
    at: str
    touched: RunDatasets


class LineageRun:
    """Tells of one run, from a thread of its own. What cannot be sent is logged once, until something can be again."""

    def __init__(self, settings: Settings, pipeline: str, task: str) -> None:
        self._settings, self._pipeline, self._task = settings, pipeline, task
        self._id, self._troubled = str(uuid.uuid4()), False
        self._events: queue.Queue[_Event] = queue.Queue(maxsize=MAX_PENDING)
        self._thread: threading.Thread | None = None
        if is_enabled(settings):
            self._thread = threading.Thread(target=self._send_all, name="lineage", daemon=True)
            self._thread.start()

    def emit(self, state: State, touched: Callable[[], RunDatasets] = RunDatasets) -> None:
        """Say how the run stands; its end waits for what was not sent yet, for `FLUSH_SECONDS` seconds at most.

        Args:
            state: How it stands.
            touched: Returns what was read and written so far; asked only where somebody listens. An error of it is
                logged, and the state is told without.
        """
        if self._thread is None:
            return
        try:
            self._events.put_nowait(
                _Event(state=state, at=datetime.now(UTC).isoformat(), touched=self._describe(touched))
            )
        except queue.Full:
            self._log_failure("the listener is too slow")
        if state in END_STATES:
            self._thread.join(FLUSH_SECONDS)
            if self._thread.is_alive():
                self._log_failure(f"no answer within {FLUSH_SECONDS:g} s")

    def _describe(self, touched: Callable[[], RunDatasets]) -> RunDatasets:
        try:
            return touched()
        except Exception as error:  # noqa: BLE001 -- how a run stands is told whatever cannot be said of it
            self._log_failure(type(error).__name__)
            return RunDatasets()

    def _send_all(self) -> None:
        """Send until the run has ended."""
        client = None
        while True:
            event = self._events.get()
            try:
                client = client or make_client(self._settings.lineage)
                client.emit(self._make_event(event))
                self._troubled = False
            except Exception as error:  # noqa: BLE001 -- what was computed stands, whatever is told of it
                self._log_failure(describe_failure(error))
            self._events.task_done()
            if event.state in END_STATES:
                return

    def _log_failure(self, trouble: str) -> None:
        if not self._troubled:
            log.warning("lineage_not_sent", pipeline=self._pipeline, task=self._task, error=trouble)
        self._troubled = True

    def _make_event(self, event: _Event) -> Any:
        from cutover.lineage.datasets import make_event  # noqa: PLC0415 -- the client takes a second to load

        job = f"{self._pipeline}.{self._task}"
        touched = event.touched
        return make_event(
            state=event.state,
            at=event.at,
            run_id=self._id,
            job=(self._settings.lineage.namespace, job),
            inputs=touched.inputs,
            outputs=touched.outputs,
            facets=touched.facets,
        )


def is_enabled(settings: Settings) -> bool:
    """Return whether the settings name somebody who listens."""
    return settings.lineage.file is not None or settings.lineage.url is not None


@contextmanager
def track_run(run: LineageRun, touched: Callable[[], RunDatasets]) -> Iterator[None]:
    """Tell that a run began, and how it ended."""
    run.emit("START")
    try:
        yield
    except BaseException as error:
        run.emit(decide_end_state(error), touched)
        raise
    run.emit("COMPLETE", touched)


def decide_end_state(error: BaseException) -> State:
    """Return ABORT of what a person ended, FAIL of all else."""
    return "ABORT" if isinstance(error, KeyboardInterrupt) else "FAIL"


def emit_lineage(task: str, describe: Describe[Result]) -> Callable[[Task[Arguments, Result]], Task[Arguments, Result]]:
    """Return a decorator that tells of each run of a task.

    Args:
        task: Last part of the job's name, behind the pipeline's.
        describe: Returns what a run touched, by its result.
    """

    def add(function: Task[Arguments, Result]) -> Task[Arguments, Result]:
        @wraps(function)
        def run(settings: Settings, pipeline: Pipeline, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            this, results = LineageRun(settings, pipeline.name, task), list[Result]()
            with track_run(this, lambda: describe(settings, pipeline, results[0]) if results else RunDatasets()):
                results.append(function(settings, pipeline, *args, **kwargs))
            return results[0]

        return cast("Task[Arguments, Result]", run)  # `wraps` has a type of its own

    return add


def make_client(lineage_settings: LineageSettings) -> "OpenLineageClient":
    """Return a client of the one that the settings name; a file's folder is made.

    Raises:
        OSError: The folder cannot be made.
        ImportError: The client is not installed.
    """
    from openlineage.client import OpenLineageClient  # noqa: PLC0415 -- takes a second to load: where somebody listens
    from openlineage.client.transport.file import FileConfig, FileTransport  # noqa: PLC0415
    from openlineage.client.transport.http import HttpConfig, HttpTransport  # noqa: PLC0415

    if lineage_settings.file is not None:
        path = lineage_settings.file.resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        return OpenLineageClient(transport=FileTransport(FileConfig(log_file_path=str(path), append=True)))
    options = {"url": str(lineage_settings.url), "timeout": HTTP_SECONDS, "retry": {"total": 0}}
    return OpenLineageClient(transport=HttpTransport(HttpConfig.from_dict(options)))


def describe_failure(error: Exception) -> str:
    """Return what went wrong without the words of an error, which may hold an address with its password."""
    answer = getattr(error, "response", None)
    status = getattr(answer, "status_code", None)
    return type(error).__name__ + (f", status {status}" if status is not None else "")
