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
from cutover.lineage.listener import connect, describe_trouble
from cutover.settings import Settings

if TYPE_CHECKING:
    from openlineage.client.event_v2 import InputDataset, OutputDataset

State = Literal["START", "RUNNING", "COMPLETE", "FAIL", "ABORT"]
ENDED: tuple[State, ...] = ("COMPLETE", "FAIL", "ABORT")
PATIENCE = 2.0  # seconds that a run waits at its end for what is not sent yet
WAITING = 10
"""Events that may wait for a listener; a driver's further ones are left out."""

Given = ParamSpec("Given")
Result = TypeVar("Result")
Task = Callable[Concatenate[Settings, Pipeline, Given], Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """What a run read and wrote."""

    inputs: "tuple[InputDataset, ...]" = ()
    outputs: "tuple[OutputDataset, ...]" = ()
    facets: Mapping[str, Any] = field(default_factory=dict)  # of the run, plain values


Describe = Callable[[Settings, Pipeline, Result], Touched]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    state: State
    at: str
    touched: Touched


class LineageRun:
    """Tells of one run, from a thread of its own. What cannot be sent is logged once, until something can be again."""

    def __init__(self, settings: Settings, pipeline: str, task: str) -> None:
        self._settings, self._pipeline, self._task = settings, pipeline, task
        self._id, self._troubled = str(uuid.uuid4()), False
        self._events: queue.Queue[_Event] = queue.Queue(maxsize=WAITING)
        self._thread: threading.Thread | None = None
        if is_wanted(settings):
            self._thread = threading.Thread(target=self._send_all, name="lineage", daemon=True)
            self._thread.start()

    def tell(self, state: State, touched: Callable[[], Touched] = Touched) -> None:
        """Say how the run stands; its end waits for what was not sent yet, for `PATIENCE` seconds at most.

        Args:
            state: How it stands.
            touched: Returns what was read and written so far; asked only where somebody listens. An error of it is
                logged, and the state is told without.
        """
        if self._thread is None:
            return
        try:
            self._events.put_nowait(_Event(state=state, at=datetime.now(UTC).isoformat(), touched=self._try(touched)))
        except queue.Full:
            self._complain("the listener is too slow")
        if state in ENDED:
            self._thread.join(PATIENCE)
            if self._thread.is_alive():
                self._complain(f"no answer within {PATIENCE:g} s")

    def _try(self, touched: Callable[[], Touched]) -> Touched:
        try:
            return touched()
        except Exception as error:  # noqa: BLE001 -- how a run stands is told whatever cannot be said of it
            self._complain(type(error).__name__)
            return Touched()

    def _send_all(self) -> None:
        """Send until the run has ended."""
        client = None
        while True:
            event = self._events.get()
            try:
                client = client or connect(self._settings.lineage)
                client.emit(self._make(event))
                self._troubled = False
            except Exception as error:  # noqa: BLE001 -- what was computed stands, whatever is told of it
                self._complain(describe_trouble(error))
            self._events.task_done()
            if event.state in ENDED:
                return

    def _complain(self, trouble: str) -> None:
        if not self._troubled:
            log.warning("lineage_not_sent", pipeline=self._pipeline, task=self._task, error=trouble)
        self._troubled = True

    def _make(self, event: _Event) -> Any:
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


def is_wanted(settings: Settings) -> bool:
    """Return whether the settings name somebody who listens."""
    return settings.lineage.file is not None or settings.lineage.url is not None


@contextmanager
def tell_run(run: LineageRun, touched: Callable[[], Touched]) -> Iterator[None]:
    """Tell that a run began, and how it ended."""
    run.tell("START")
    try:
        yield
    except BaseException as error:
        run.tell(end_of(error), touched)
        raise
    run.tell("COMPLETE", touched)


def end_of(error: BaseException) -> State:
    """Return ABORT of what a person ended, FAIL of all else."""
    return "ABORT" if isinstance(error, KeyboardInterrupt) else "FAIL"


def tell_lineage(task: str, describe: Describe[Result]) -> Callable[[Task[Given, Result]], Task[Given, Result]]:
    """Return a decorator that tells of each run of a task.

    Args:
        task: Last part of the job's name, behind the pipeline's.
        describe: Returns what a run touched, by its result.
    """

    def add(function: Task[Given, Result]) -> Task[Given, Result]:
        @wraps(function)
        def run(settings: Settings, pipeline: Pipeline, *args: Given.args, **kwargs: Given.kwargs) -> Result:
            this, results = LineageRun(settings, pipeline.name, task), list[Result]()
            with tell_run(this, lambda: describe(settings, pipeline, results[0]) if results else Touched()):
                results.append(function(settings, pipeline, *args, **kwargs))
            return results[0]

        return cast("Task[Given, Result]", run)  # `wraps` has a type of its own

    return add
