"""Windows, triggers and watermarks as a scenario file has them: objects with a `type`, each of its own few fields.

A field that is not described here is refused, and so is a value that no definition takes: nothing is read over.
"""

from abc import abstractmethod
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from cutover.definition.model import triggers, windows
from cutover.definition.model.durations import parse_duration
from cutover.definition.model.triggers import Once, Trigger
from cutover.definition.model.windows import Window
from cutover.errors import DefinitionError
from cutover.scenarios.reading.texts import Duration, FiniteTime, Time, refuse


class Form(BaseModel):
    """An object of the file: no field more, no field of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class WindowForm(Form):
    """An object that stands for a window."""

    @abstractmethod
    def window(self) -> Window:
        """Return the window of a definition."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        try:
            self.window()
        except DefinitionError as error:
            _refuse_as(error)
        return self


class FixedForm(WindowForm):
    """Windows one after the other."""

    type: Literal["fixed"]
    size: Duration
    offset: Duration = "0 seconds"

    def window(self) -> Window:
        """Return the window of a definition."""
        size = parse_duration(self.size, of="size")
        return windows.Sliding(size=size, every=size, offset=parse_duration(self.offset, of="offset"))


class SlidingForm(WindowForm):
    """Overlapping windows of a size, one of which begins at each multiple of `every`."""

    type: Literal["sliding"]
    size: Duration
    every: Duration
    offset: Duration = "0 seconds"

    def window(self) -> Window:
        """Return the window of a definition."""
        size, every = parse_duration(self.size, of="size"), parse_duration(self.every, of="every")
        return windows.Sliding(size=size, every=every, offset=parse_duration(self.offset, of="offset"))


class DailyForm(WindowForm):
    """Days of a time zone, of 23 or 25 hours where the clock is changed."""

    type: Literal["daily"]
    zone: str = Field(description="a time zone such as `Europe/Berlin`")
    offset: Duration = "0 seconds"

    def window(self) -> Window:
        """Return the window of a definition."""
        return windows.Daily(zone=self.zone, offset=self.offset)


class SessionsForm(WindowForm):
    """Rows of a key at a distance of at most a gap, which is inclusive."""

    type: Literal["sessions"]
    gap: Duration

    def window(self) -> Window:
        """Return the window of a definition."""
        return windows.Sessions(self.gap)


class GlobalForm(WindowForm):
    """One window for all of event time."""

    type: Literal["global"]

    def window(self) -> Window:
        """Return the window of a definition."""
        return windows.Global()


AnyWindow = Annotated[
    FixedForm | SlidingForm | DailyForm | SessionsForm | GlobalForm,
    Field(discriminator="type", description="where in event time: an object with a `type`"),
]


class TriggerForm(Form):
    """An object that stands for a trigger, or for a part of one."""

    @abstractmethod
    def trigger(self) -> Trigger:
        """Return the trigger of a definition."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        try:
            self.trigger()
        except DefinitionError as error:
            _refuse_as(error)
        return self


class AtWatermarkForm(TriggerForm):
    """Once the watermark has passed the end of the window; `always`: even if nothing is new."""

    type: Literal["at_watermark"]
    early: "AnyTrigger | None" = None
    late: "AnyTrigger | None" = None
    always: bool = False

    def trigger(self) -> triggers.AtWatermark:
        """Return the trigger of a definition."""
        early, late = (None if part is None else part.trigger() for part in (self.early, self.late))
        return triggers.AtWatermark(early=early, late=late, always=self.always)


class EveryForm(TriggerForm):
    """At the end of a period of processing time in which rows came; periods end at multiples of it."""

    type: Literal["every"]
    period: Duration

    def trigger(self) -> triggers.Every:
        """Return the trigger of a definition."""
        return triggers.Every(self.period)


class AfterDelayForm(TriggerForm):
    """That long after the first row, in processing time."""

    type: Literal["after_delay"]
    delay: Duration

    def trigger(self) -> triggers.AfterDelay:
        """Return the trigger of a definition."""
        return triggers.AfterDelay(self.delay)


class AfterCountForm(TriggerForm):
    """With the n-th row."""

    type: Literal["after_count"]
    rows: int = Field(ge=1, description="a whole number of rows, at least 1")

    def trigger(self) -> triggers.AfterCount:
        """Return the trigger of a definition."""
        return triggers.AfterCount(self.rows)


class EachEpochForm(TriggerForm):
    """At the end of an epoch (a micro-batch) in which rows came."""

    type: Literal["each_epoch"]

    def trigger(self) -> triggers.EachEpoch:
        """Return the trigger of a definition."""
        return triggers.EachEpoch()


class RepeatForm(TriggerForm):
    """A trigger over and over."""

    type: Literal["repeat"]
    of: "AnyTrigger"

    def trigger(self) -> triggers.Repeat:
        """Return the trigger of a definition."""
        return triggers.Repeat(self.of.trigger())


class UntilForm(TriggerForm):
    """A trigger until another one fires; then a last time, and that was it."""

    type: Literal["until"]
    of: "AnyTrigger"
    until: "OnceForm"

    def trigger(self) -> triggers.Until:
        """Return the trigger of a definition."""
        until: Once = self.until.trigger()
        return triggers.Until(self.of.trigger(), until)


class SequenceForm(TriggerForm):
    """Triggers one after the other."""

    type: Literal["sequence"]
    parts: list["AnyTrigger"] = Field(min_length=1, description="a list of at least one trigger")

    def trigger(self) -> triggers.Sequence:
        """Return the trigger of a definition."""
        return triggers.Sequence(*(part.trigger() for part in self.parts))


OnceForm = Annotated[
    AtWatermarkForm | EveryForm | AfterDelayForm | AfterCountForm | EachEpochForm,
    Field(discriminator="type", description="an end that fires once: an object with a `type`"),
]
AnyTrigger = Annotated[
    AtWatermarkForm
    | EveryForm
    | AfterDelayForm
    | AfterCountForm
    | EachEpochForm
    | RepeatForm
    | UntilForm
    | SequenceForm,
    Field(discriminator="type", description="when in processing time: an object with a `type`"),
]


class StepForm(Form):
    """At a moment, behind the rows that arrive at it, the watermark moves here."""

    processing_time: FiniteTime
    watermark: Time


class StepsForm(Form):
    """A watermark that moves in steps and never back; a step to `+inf`: all input is in."""

    type: Literal["steps"]
    steps: list[StepForm] = Field(min_length=1, description="a list of steps, at least one")


class EstimatorForm(Form):
    """A watermark that follows the newest event time at a distance."""

    type: Literal["estimator"]
    out_of_orderness: Duration


class IdealForm(Form):
    """A watermark that is the processing time itself."""

    type: Literal["ideal"]


class BoundedForm(Form):
    """Bounded input, as a batch reads it: nothing is known until the last row is in, and everything then."""

    type: Literal["bounded"]
    processing_time: FiniteTime | None = None  # when that is known; None: as the last row arrives


AnyWatermark = Annotated[
    StepsForm | EstimatorForm | IdealForm | BoundedForm,
    Field(discriminator="type", description="how far event time is known: an object with a `type`"),
]

for _model in (AtWatermarkForm, RepeatForm, UntilForm, SequenceForm):
    _model.model_rebuild()


def _refuse_as(error: DefinitionError) -> None:
    """Refuse an object as the definition refuses what it stands for: its messages are `...: expected ..., got ....`."""
    message, _, hint = str(error).partition("\nHint: ")
    _, _, said = message.partition(": expected ")
    expected, _, got = said.rpartition(", got ")
    refuse(expected, got=got.removesuffix("."), hint=hint)
