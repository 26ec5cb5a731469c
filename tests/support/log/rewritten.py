"""A log that is restored from a copy while its broker is down: same id and offsets, other records."""

import shutil
from collections.abc import Callable
from pathlib import Path

from cutover.infra.broker import server as infra_broker
from tests.support.servers.broker import Broker

Act = Callable[[], object]


class LogCopy:
    """A copy of the folders of one topic, in their current state; the broker is stopped while it is taken."""

    def __init__(self, broker: Broker, topic: str, keep: Path) -> None:
        self._broker, self._topic, self._keep = broker, topic, keep
        broker.stop()
        for folder in self._folders():
            shutil.copytree(folder, keep / folder.name)
        broker.start()

    def restore(self, while_down: Act = lambda: None) -> None:
        """Replace the topic's folders with the copy."""
        self._broker.stop()
        while_down()
        for folder in self._folders():
            shutil.rmtree(folder)
        for folder in self._keep.iterdir():
            shutil.copytree(folder, self._data / folder.name)
        self._broker.start()

    @property
    def _data(self) -> Path:
        return infra_broker.locate_broker_files(self._broker.home) / "data"

    def _folders(self) -> list[Path]:
        return sorted(path for path in self._data.iterdir() if path.name.rpartition("-")[0] == self._topic)
