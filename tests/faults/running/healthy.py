"""One small healthy installation, made once a session by both paths; faults of the lake alone harm copies of it."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.faults.running.definition import CAP
from tests.faults.running.rig import Rig

EPOCHS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthy:
    """Home of a healthy installation, and the topic that it has read to its end."""

    home: Path
    topic: str


_MADE: dict[str, Healthy] = {}  # by broker: what this process has made


def copy_healthy(rig: Rig) -> None:
    """Give a rig a copy of the healthy installation: several epochs, late records, a batch run, an agreeing verdict."""
    broker = str(rig.settings.kafka.bootstrap_servers)
    if broker not in _MADE:
        _MADE[broker] = _make(rig)
        return
    healthy = _MADE[broker]
    rig.topic = healthy.topic
    rig.define()
    shutil.copytree(healthy.home, rig.settings.home, dirs_exist_ok=True)


def _make(rig: Rig) -> Healthy:
    rig.define()
    for _ in range(EPOCHS):
        rig.send(rig.draw(CAP, late=0.1))
        rig.drain()
    rig.batch()
    rig.reconcile()
    home = rig.settings.home.with_name(f"{rig.settings.home.name}-healthy")
    shutil.copytree(rig.settings.home, home)
    return Healthy(home=home, topic=rig.topic)
