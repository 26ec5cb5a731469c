"""OpenLineage events of a driver's inputs and outputs: at its start, periodically, and at its end."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cutover.lineage.runs import LineageRun, RunDatasets, State, decide_end_state, is_enabled
from cutover.settings import Settings
from cutover.streaming.process.context import DriverContext


class DriverLineage:
    """Emits the events of one driver. The end is emitted last, after heartbeat and log: a listener may be slow."""

    def __init__(self, settings: Settings, pipeline: str) -> None:
        self._settings = settings
        self._context: DriverContext | None = None
        self._run = LineageRun(settings, pipeline, "stream")
        self._run.emit("START")

    @contextmanager
    def telling(self, context: DriverContext) -> Iterator[None]:
        """Emit progress periodically while the block runs."""
        self._context = context
        if not is_enabled(self._settings):
            yield
            return
        ended = threading.Event()

        def report_progress() -> None:
            while not ended.wait(self._settings.lineage.every_seconds):
                self._run.emit("RUNNING", self._find_touched)

        threading.Thread(target=report_progress, name="lineage-clock", daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    def end(self, code: int) -> None:
        """Emit the end of a driver that finished, or that was stopped before its cut."""
        self._end("COMPLETE" if code == 0 else "ABORT")

    def fail(self, error: BaseException) -> None:
        """Emit the failure that ended it."""
        self._end(decide_end_state(error))

    def _end(self, state: State) -> None:
        self._run.emit(state, self._find_touched)

    def _find_touched(self) -> RunDatasets:
        """Return the offsets that this driver has committed, and its table; nothing before its own first epoch."""
        from cutover.lineage import datasets  # noqa: PLC0415 -- its client takes a second to load

        context = self._context
        newest = None if context is None else context.metrics.newest
        if context is None or newest is None or newest.run_id != context.beat.now.run_id:
            return RunDatasets()
        start, settings = context.start, self._settings
        read = {p: (start.offsets.get(p), end) for p, end in newest.end.items()}
        inputs = datasets.make_input_topics(settings, newest.topic, newest.topic_id, newest.cluster_id, read)
        outputs = (datasets.make_output_table(start.table, None),)
        facets = {"runId": newest.run_id, "epoch": newest.epoch}
        return RunDatasets(inputs=tuple(inputs), outputs=outputs, facets=facets)
