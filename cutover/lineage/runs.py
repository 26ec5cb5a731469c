"""One run of one of our jobs, told from its start to its end; nothing that happens here can end it."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from cutover.definition.model.pipeline import Pipeline
from cutover.events import log
from cutover.settings import Settings

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, OutputDataset

PRODUCER = "urn:cutover"
HTTP_SECONDS = 2.0
"""How long an address may take to answer: a run waits for it at its start and at its end."""

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


class LineageRun:
    """Tells of one run. The first error is logged, and no more is told."""

    def __init__(self, settings: Settings, pipeline: str, task: str) -> None:
        self._settings, self._pipeline, self._task = settings, pipeline, task
        self._id, self._client = str(uuid.uuid4()), None if not is_wanted(settings) else self._try_connect()

    def tell(self, state: str, touched: Callable[[], Touched] = Touched) -> None:
        """Send one event.

        Args:
            state: START, RUNNING, COMPLETE or FAIL.
            touched: Returns what was read and written so far; asked only where somebody listens.
        """
        if self._client is None:
            return
        try:
            self._client.emit(self._event(state, touched()))
        except Exception as error:  # noqa: BLE001 -- what was computed stands, whatever is told of it
            log.warning("lineage_not_sent", pipeline=self._pipeline, task=self._task, error=str(error))
            self._client = None

    def _event(self, state: str, touched: Touched) -> Any:
        from openlineage.client.event_v2 import Job, Run, RunEvent  # noqa: PLC0415 -- only where it is asked for
        from openlineage.client.generated.base import EventType, RunFacet  # noqa: PLC0415

        told = RunFacet(producer=PRODUCER).with_additional_properties(**touched.facets) if touched.facets else None
        return RunEvent(
            eventTime=datetime.now(UTC).isoformat(),
            producer=PRODUCER,
            eventType=EventType(state),
            run=Run(runId=self._id, facets={} if told is None else {"cutover_result": cast("RunFacet", told)}),
            job=Job(namespace=self._settings.lineage.namespace, name=f"{self._pipeline}.{self._task}"),
            inputs=list(touched.inputs),
            outputs=list(touched.outputs),
        )

    def _try_connect(self) -> "OpenLineageClient | None":
        from openlineage.client import OpenLineageClient  # noqa: PLC0415 -- only where it is asked for
        from openlineage.client.transport.file import FileConfig, FileTransport  # noqa: PLC0415
        from openlineage.client.transport.http import HttpConfig, HttpTransport  # noqa: PLC0415

        wanted = self._settings.lineage
        try:
            if wanted.file is not None:
                path = wanted.file.resolve()
                path.parent.mkdir(parents=True, exist_ok=True)
                return OpenLineageClient(transport=FileTransport(FileConfig(log_file_path=str(path), append=True)))
            options = {"url": wanted.url, "timeout": HTTP_SECONDS, "retry": {"total": 0}}
            return OpenLineageClient(transport=HttpTransport(HttpConfig.from_dict(options)))
        except Exception as error:  # noqa: BLE001 -- as above
            log.warning("lineage_not_sent", pipeline=self._pipeline, task=self._task, error=str(error))
            return None


def is_wanted(settings: Settings) -> bool:
    """Return whether the settings name somebody who listens."""
    return settings.lineage.file is not None or settings.lineage.url is not None


@contextmanager
def told(run: LineageRun, touched: Callable[[], Touched]) -> Iterator[None]:
    """Tell that a run began, and how it ended."""
    run.tell("START")
    try:
        yield
    except BaseException:
        run.tell("FAIL", touched)
        raise
    run.tell("COMPLETE", touched)


def recorded(task: str, describe: Describe[Result]) -> Callable[[Task[Given, Result]], Task[Given, Result]]:
    """Return a decorator that tells of each run of a task.

    Args:
        task: Last part of the job's name, behind the pipeline's.
        describe: Returns what a run touched, by its result.
    """

    def add(function: Task[Given, Result]) -> Task[Given, Result]:
        @wraps(function)
        def run(settings: Settings, pipeline: Pipeline, *args: Given.args, **kwargs: Given.kwargs) -> Result:
            this, results = LineageRun(settings, pipeline.name, task), list[Result]()
            with told(this, lambda: describe(settings, pipeline, results[0]) if results else Touched()):
                results.append(function(settings, pipeline, *args, **kwargs))
            return results[0]

        return cast("Task[Given, Result]", run)  # `wraps` has a type of its own

    return add
