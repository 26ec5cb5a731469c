"""What a driver has read and written so far, told as OpenLineage events: at its start, now and then, and at its end."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cutover.lake.control import versions
from cutover.lineage.runs import LineageRun, Touched, is_wanted, told
from cutover.streaming.process.context import DriverContext


@contextmanager
def telling(context: DriverContext) -> Iterator[None]:
    """Tell of a driver while the block runs, from a thread of its own, so that no epoch waits for a listener."""
    settings = context.settings
    if not is_wanted(settings):
        yield
        return
    run, ended = LineageRun(settings, context.pipeline.name, "stream"), threading.Event()

    def go_on() -> None:
        while not ended.wait(settings.lineage.every_seconds):
            run.tell("RUNNING", lambda: _touched(context))

    thread = threading.Thread(target=go_on, name="lineage", daemon=True)
    with told(run, lambda: _touched(context)):
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _touched(context: DriverContext) -> Touched:
    """Return the offsets that this driver has committed, and its table; nothing before its first epoch."""
    from cutover.lineage import datasets  # noqa: PLC0415 -- its client takes a second to load: only where somebody listens

    metrics, version = context.metrics, versions.current(context.settings, context.pipeline)
    newest = metrics.newest
    if newest is None or version is None:
        return Touched()
    read = {p: (metrics.start_offsets.get(p), end) for p, end in newest.end.items()}
    inputs = datasets.topics(context.settings, newest.topic, newest.topic_id, newest.cluster_id, read)
    outputs = (datasets.table_written(version.uri, None),)
    facets = {"runId": context.beat.now.run_id, "epoch": newest.epoch}
    return Touched(inputs=tuple(inputs), outputs=outputs, facets=facets)
