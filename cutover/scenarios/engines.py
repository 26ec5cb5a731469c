"""The kind of engine that a scenario is about, and what follows for trigger, watermark and epochs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from cutover.definition.durations import parse_duration
from cutover.definition.triggers import DEFAULT, AtWatermark, EachEpoch, Repeat, Trigger
from cutover.definition.windows import FOREVER
from cutover.panes.model import Row, Step, Watermark
from cutover.panes.watermarks import all_in
from cutover.scenarios import points
from cutover.scenarios.fields import as_list, as_text, refuse
from cutover.scenarios.model import Engine
from cutover.scenarios.points import Clock
from cutover.scenarios.words import Asked

_TEXT = re.compile(r"\s*([A-Za-z_-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_BOUNDARIES = re.compile(r"\s*boundaries\s+(.*)", re.DOTALL)
_EVERY = re.compile(r"\s*every\s+(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Named:
    """An engine, and what stands in the parentheses behind it."""

    engine: Engine
    remark: str = ""


def engine(given: Mapping[str, object], asked: Asked) -> Named:
    """Return the engine of a scenario; streaming if none is named and the trigger speaks of no micro-batches.

    Raises:
        DefinitionError: It is none that there is.
    """
    if given.get("engine") is None:
        return Named(Engine.STREAMING if asked.epoch_period is None else Engine.MICRO_BATCH)
    text = as_text(given["engine"], of="engine")
    match = _TEXT.fullmatch(text)
    known = [one.value for one in Engine]
    if match is None or match[1] not in known:
        close = get_close_matches(match[1] if match else text, known, n=1)
        refuse("engine", f"one of {', '.join(known)}", text, f"did you mean `{close[0]}`?" if close else "")
    return Named(Engine(match[1]), match[2] or "")


def trigger(named: Named, asked: Asked) -> Trigger:
    """Return the trigger in force: in micro-batches the default one is `Repeat(EachEpoch())`.

    Each micro-batch is a bounded run whose watermark passes everything at its end, so `AtWatermark` fires there.

    Raises:
        DefinitionError: Micro-batches, and a trigger that does not fire at their ends.
    """
    if named.engine is not Engine.MICRO_BATCH:
        return asked.trigger
    if asked.trigger not in {DEFAULT, AtWatermark(), EachEpoch(), Repeat(EachEpoch())}:
        hint = "with `engine` streaming any trigger goes, and EachEpoch() beside others."
        refuse(
            "trigger", "`default` or `EachEpoch()`, since a micro-batch ends with a result", str(asked.trigger), hint
        )
    return Repeat(EachEpoch())


def watermark(named: Named, given: Mapping[str, object], clock: Clock, rows: Sequence[Row]) -> Watermark:
    """Return the watermark in force.

    The scenario's own; of batch one that knows nothing until all input is in, and everything then; of micro-batches
    none, since theirs end with each of them: so their panes are all early, and nothing is late.

    Raises:
        DefinitionError: The scenario's own does not fit.
    """
    if named.engine is Engine.MICRO_BATCH:
        return ()
    if named.engine is Engine.STREAMING:
        return points.watermark(given, clock)
    steps = points.watermark({name: value for name, value in given.items() if name == "watermark_steps"}, clock)
    return (Step(processing_time=all_in(rows, steps), watermark=FOREVER),)


def epochs(
    named: Named, given: Mapping[str, object], asked: Asked, clock: Clock, rows: Sequence[Row]
) -> tuple[int, ...]:
    """Return when epochs end: of `epochs`, else of the engine's parentheses, else of the trigger's remark.

    Raises:
        DefinitionError: What counts does not fit, or there are micro-batches without ends.
    """
    if "epochs" in given:
        return _of_field(given["epochs"], clock, rows)
    if named.engine is Engine.MICRO_BATCH and named.remark:
        return _of_remark(named.remark, clock, rows)
    if asked.epoch_period is not None:
        return _periods(asked.epoch_period, rows, of="trigger")
    if named.engine is Engine.MICRO_BATCH:
        refuse(
            "engine", "when micro-batches end", "micro-batch", "`micro-batch (every 1 MINUTE)`, or a field `epochs`."
        )
    return ()


def _of_field(value: object, clock: Clock, rows: Sequence[Row]) -> tuple[int, ...]:
    if not isinstance(value, str):
        return points.epochs(as_list(value, of="epochs"), clock, of="epochs")
    every = _EVERY.fullmatch(value)
    if every is None:
        refuse("epochs", "a list of times, or `every 1 MINUTE`", value)
    return _periods(every[1], rows, of="epochs")


def _of_remark(remark: str, clock: Clock, rows: Sequence[Row]) -> tuple[int, ...]:
    boundaries, every = _BOUNDARIES.fullmatch(remark), _EVERY.fullmatch(remark)
    if boundaries is not None:
        return points.epochs([text.strip() for text in boundaries[1].split(",")], clock, of="engine: boundaries")
    if every is None:
        refuse("engine", "`boundaries` and times, or `every 1 MINUTE`, in the parentheses of micro-batch", remark)
    return _periods(every[1], rows, of="engine")


def _periods(text: str, rows: Sequence[Row], *, of: str) -> tuple[int, ...]:
    """Return the ends of all periods in which rows arrive; an epoch without rows changes nothing."""
    period = parse_duration(text.lower(), of=of)
    if period == 0:
        refuse(of, "epochs longer than nothing", text)
    return tuple(sorted({-(-row.processing_time // period) * period for row in rows}))
