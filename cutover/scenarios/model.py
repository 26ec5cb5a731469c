"""One scenario, read and checked: what every runner is given, and how its times are written."""

from dataclasses import dataclass
from enum import StrEnum

from cutover.panes.model import Setting
from cutover.scenarios.times import Style


class Engine(StrEnum):
    """What kind of engine a scenario is about."""

    STREAMING = "streaming"
    MICRO_BATCH = "micro-batch"  # a result for every window that changed, at each epoch; no watermark of its own
    BATCH = "batch"  # bounded input: the watermark passes everything at once, when all of it is in


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a runner simulates."""

    title: str
    figure: int | None
    engine: Engine
    setting: Setting
    style: Style
