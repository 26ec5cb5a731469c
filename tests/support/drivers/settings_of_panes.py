"""Small settings for tests of panes: times in seconds, rows as text."""

from dataclasses import dataclass

from cutover.definition import Accumulation, Sum
from cutover.definition.measures.kinds import Measure
from cutover.definition.model.triggers import DEFAULT_TRIGGER, Trigger
from cutover.definition.windows.kinds import SlidingWindows, Window
from cutover.definition.windows.window_fn import EARLIEST, FOREVER, LATEST
from cutover.panes.model import InputRow, Outcome, Setting, Watermark, WatermarkStep

SECOND = 1_000_000
SUM = Sum("value")
TEN_SECONDS = SlidingWindows(size=10 * SECOND, every=10 * SECOND)


def rows(text: str) -> tuple[InputRow, ...]:
    """Return rows of lines `event second, processing second, value, key (or nothing)`."""
    return tuple(_row(*line.split()) for line in text.strip().splitlines())


def _row(event: str, arrived: str, value: str, key: str | None = None) -> InputRow:
    return InputRow(
        event_time=round(float(event) * SECOND),
        processing_time=round(float(arrived) * SECOND),
        key=key,
        columns={"value": int(value)},
    )


def steps(*pairs: tuple[float, float | None]) -> tuple[WatermarkStep, ...]:
    """Return steps of `(processing second, watermark second)`; None: all input is in."""
    return tuple(
        WatermarkStep(
            processing_time=round(at * SECOND), watermark=FOREVER if watermark is None else round(watermark * SECOND)
        )
        for at, watermark in pairs
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Handling:
    """Measure, window, trigger and accumulation of a pipeline, without its rows."""

    window: Window = TEN_SECONDS
    trigger: Trigger = DEFAULT_TRIGGER
    accumulation: Accumulation = Accumulation.ACCUMULATING
    watermark: Watermark = ()
    measure: Measure = SUM
    allowed: float | None = None  # seconds
    epochs: tuple[float, ...] = ()  # seconds


def setting(text: str, handling: Handling) -> Setting:
    """Return a setting over rows given as text."""
    return Setting(
        rows=rows(text),
        measure=handling.measure,
        window=handling.window,
        trigger=handling.trigger,
        accumulation=handling.accumulation,
        watermark=handling.watermark,
        allowed_lateness=None if handling.allowed is None else round(handling.allowed * SECOND),
        epochs=tuple(round(at * SECOND) for at in handling.epochs),
    )


def format_panes(outcome: Outcome) -> list[str]:
    """Return panes as `at: start-end [key] value kind`, in seconds; a retraction's value with a minus."""
    return [
        f"{pane.processing_time / SECOND:g}: {_second(pane.window.start)}..{_second(pane.window.end)} "
        f"{'' if pane.key is None else f'{pane.key} '}{'-' if pane.is_retraction else ''}{pane.value} {pane.timing}"
        for pane in outcome.panes
    ]


def _second(micros: int) -> str:
    return {EARLIEST: "-inf", LATEST: "+inf"}.get(micros, f"{micros / SECOND:g}")
