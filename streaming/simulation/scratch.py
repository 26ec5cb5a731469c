"""Scratch home for a run that is not served: its tables and notes lie in a folder that is deleted afterwards."""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from cutover.log.kafka import LogClient
from cutover.output import terminal
from cutover.settings import Settings


@contextmanager
def open_scratch_home(settings: Settings, client: LogClient, name: str) -> Iterator[Settings]:
    """Yield settings with a separate home and lake, over the same log.

    Args:
        settings: Of the installation.
        client: Knows where the broker is.
        name: What the folder is called after.
    """
    terminal.redirect_output(settings.home)  # before a session does it, into a folder that goes
    home = settings.home.resolve() / "tmp" / f"{name}-{uuid.uuid4().hex}"
    kafka = settings.kafka.model_copy(update={"bootstrap_servers": client.bootstrap})
    stream = settings.stream.model_copy(update={"trigger_seconds": 0.1})
    unserved = {"home": home, "lake": None, "kafka": kafka, "stream": stream, "stream_version": None}
    try:
        yield settings.model_copy(update=unserved)
    finally:
        shutil.rmtree(home, ignore_errors=True)
