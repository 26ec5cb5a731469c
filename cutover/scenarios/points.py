"""The rows of a scenario and its watermark, from its points and steps."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from cutover.definition.durations import parse_duration
from cutover.definition.windows import FOREVER
from cutover.errors import DefinitionError
from cutover.panes.model import Estimator, Ideal, Key, Row, Step, Watermark
from cutover.scenarios import times
from cutover.scenarios.fields import as_list, as_object, as_text, as_whole, check_known, refuse
from cutover.scenarios.times import Moment, Style

MILLISECOND = 1_000
LARGEST = 10**38


@dataclass(frozen=True, slots=True)
class Clock:
    """How the times of a scenario are read: all by the clock or all by date, and from where milliseconds count."""

    style: Style
    origin: int

    def time(self, given: Mapping[str, object], name: str, *, of: str) -> int:
        """Return a time: the field `<name>_time` counts, without it `<name>_ms`, milliseconds after the origin.

        Raises:
            DefinitionError: Neither is there, or it does not fit the other times of the scenario.
        """
        text, millis = given.get(f"{name}_time"), given.get(f"{name}_ms")
        if text is None and millis is not None:
            return self.origin + as_whole(millis, of=f"{of}.{name}_ms") * MILLISECOND
        return self.moment(text, of=f"{of}.{name}_time")

    def moment(self, text: object, *, of: str) -> int:
        """Return a time given as text; infinite ones aside, of the scenario's style.

        Raises:
            DefinitionError: It is no time, or of another style.
        """
        found = times.read(text, of=of)
        if found.style not in {None, self.style}:
            refuse(of, f"a time by the {self.style.name.lower()}, as the others", text)
        return found.micros


def clock(given: Mapping[str, object]) -> Clock:
    """Return how times are read: by date if the first point is; `origin` is 12:00:00 if nothing else is said."""
    points = as_list(given.get("points"), of="points")
    first = as_object(points[0], of="points[0]").get("event_time") if points else None
    style = Style.CLOCK if first is None else times.read(first, of="points[0].event_time").style
    origin = _finite(times.read(given.get("origin", "12:00:00"), of="origin"), of="origin")
    return Clock(style or Style.CLOCK, origin)


def rows(given: Mapping[str, object], clock: Clock, column: str | None) -> tuple[Row, ...]:
    """Return the rows of a scenario.

    Args:
        given: The scenario; `points` are its rows.
        clock: How times are read.
        column: The field that the measure looks at; None: none.

    Raises:
        DefinitionError: The first point that does not fit.
    """
    points = as_list(given.get("points"), of="points")
    return tuple(_row(point, clock, column, of=f"points[{position}]") for position, point in enumerate(points))


def watermark(given: Mapping[str, object], clock: Clock) -> Watermark:
    """Return the watermark: `watermark_steps`, else `watermark_estimator`, else `watermark_ideal`, else none at all.

    Raises:
        DefinitionError: What counts does not fit, or goes back.
    """
    if "watermark_steps" in given:
        return _steps(as_list(given["watermark_steps"], of="watermark_steps"), clock)
    if "watermark_estimator" in given:
        estimator = as_object(given["watermark_estimator"], of="watermark_estimator")
        check_known(estimator, ("out_of_orderness",), of="watermark_estimator")
        of = "watermark_estimator.out_of_orderness"
        text = as_text(estimator.get("out_of_orderness"), of=of)
        return Estimator(out_of_orderness=parse_duration(text.lower(), of=of))
    if "watermark_ideal" in given:
        if not isinstance(given["watermark_ideal"], str) and given["watermark_ideal"] is not True:
            refuse("watermark_ideal", "true, or a text that describes it", given["watermark_ideal"])
        return Ideal()
    if "watermark" in given:
        refuse(
            "watermark",
            "`watermark_steps`, `watermark_estimator` or `watermark_ideal`",
            "watermark",
            "a curve is not read.",
        )
    return ()


def epochs(given: Iterable[object], clock: Clock, *, of: str) -> tuple[int, ...]:
    """Return the ends of epochs from a list of times, ascending."""
    found = tuple(clock.moment(text, of=f"{of}[{position}]") for position, text in enumerate(given))
    if any(after <= before for before, after in pairwise(found)):
        refuse(of, "ascending times", ", ".join(times.write(moment, clock.style) for moment in found))
    return found


def _row(point: object, clock: Clock, column: str | None, *, of: str) -> Row:
    given = as_object(point, of=of)
    event, arrived = clock.time(given, "event", of=of), clock.time(given, "processing", of=of)
    for name, moment in (("event", event), ("processing", arrived)):
        if abs(moment) == FOREVER:
            refuse(f"{of}.{name}_time", "a time with an end", given.get(f"{name}_time"))
    columns = {} if column is None else {column: _number(given, column, of=of)}
    return Row(event_time=event, processing_time=arrived, key=_key(given.get("key"), of=of), columns=columns)


def _number(given: Mapping[str, object], column: str, *, of: str) -> int | Decimal | None:
    if column not in given:
        refuse(f"{of}.{column}", "a number, which the measure looks at", None)
    value = given[column]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        refuse(f"{of}.{column}", "a number or null", value)
    if not -LARGEST < value < LARGEST:
        refuse(f"{of}.{column}", "a number below 10^38, as in a decimal column", value)
    return value


def _key(value: object, *, of: str) -> Key:
    if isinstance(value, bool) or not (value is None or isinstance(value, (str, int))):
        refuse(f"{of}.key", "a text, a whole number or null", value)
    return value


def _steps(given: Sequence[object], clock: Clock) -> tuple[Step, ...]:
    steps = tuple(_step(step, clock, of=f"watermark_steps[{position}]") for position, step in enumerate(given))
    for position, (before, after) in enumerate(pairwise(steps), start=1):
        if after.processing_time < before.processing_time or after.watermark < before.watermark:
            msg = f"watermark_steps[{position}]: expected a step that goes neither back in processing time nor in "
            msg += f"event time, got {_shown(after, clock)} behind {_shown(before, clock)}."
            raise DefinitionError(msg)
    return steps


def _step(step: object, clock: Clock, *, of: str) -> Step:
    given = as_object(step, of=of)
    check_known(given, ("processing_time", "processing_ms", "watermark", "watermark_ms"), of=of)
    millis = given.get("watermark_ms")
    if "watermark" not in given and millis is not None:
        reached = clock.origin + as_whole(millis, of=f"{of}.watermark_ms") * MILLISECOND
    else:
        reached = clock.moment(given.get("watermark"), of=f"{of}.watermark")
    return Step(processing_time=clock.time(given, "processing", of=of), watermark=reached)


def _finite(moment: Moment, *, of: str) -> int:
    if moment.style is None:
        refuse(of, "a time with an end", "inf")
    return moment.micros


def _shown(step: Step, clock: Clock) -> str:
    return f"`{times.write(step.watermark, clock.style)}` at `{times.write(step.processing_time, clock.style)}`"
