"""Forms of windows, triggers and watermarks in a scenario file: objects with a `type` and its fields.

Unknown fields and values that no definition accepts are rejected; nothing is ignored.
"""

import inspect
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Union

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from cutover.definition.model import triggers
from cutover.definition.model.triggers import Once, Trigger
from cutover.definition.windows.kinds import KINDS, WindowKind
from cutover.definition.windows.sessions import Window
from cutover.errors import DefinitionError
from cutover.scenarios.reading.texts import Duration, FiniteTime, Time, reject


class Form(BaseModel):
    """An object of the file: no field more, no field of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class WindowForm(Form):
    """Object that describes a window: the name of its kind, and the arguments of that kind."""

    def window(self) -> Window:
        """Make the definition's window, checked by its own rules."""
        return _MAKERS[self.model_dump()["type"]](**self.model_dump(exclude={"type"}))

    @model_validator(mode="after")
    def _fits(self) -> Self:
        try:
            self.window()
        except DefinitionError as error:
            _reject_as(error)
        return self


_MAKERS = {kind.name: kind.make for kind in KINDS}
_TYPES: dict[str, Any] = {"zone": Annotated[str, Field(description="a time zone such as `Europe/Berlin`")]}


def _form(kind: WindowKind) -> type[WindowForm]:
    """Return the form of a kind: a field for each of its parameters, texts but for `zone` are durations."""
    fields: dict[str, Any] = {"type": (Literal[kind.name], ...)}
    for name, parameter in inspect.signature(kind.make).parameters.items():
        of_type = _TYPES.get(name, Duration if parameter.annotation is str else parameter.annotation)
        fields[name] = (of_type, ... if parameter.default is parameter.empty else parameter.default)
    return create_model(
        f"{kind.name.title()}Form",
        __base__=WindowForm,
        __doc__=(inspect.getdoc(kind.make) or "").partition("\n")[0],
        **fields,
    )


if TYPE_CHECKING:
    AnyWindow = WindowForm
else:
    AnyWindow = Annotated[
        Union[tuple(map(_form, KINDS))],  # noqa: UP007 -- of as many as there are
        Field(discriminator="type", description="where in event time: an object with a `type`"),
    ]


class TriggerForm(Form):
    """Object that describes a trigger or a part of one."""

    @abstractmethod
    def trigger(self) -> Trigger:
        """Make the definition's trigger, checked by its own rules."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        try:
            self.trigger()
        except DefinitionError as error:
            _reject_as(error)
        return self


class AtWatermarkForm(TriggerForm):
    """Once the watermark has passed the end of the window; `always`: even if nothing is new."""

    type: Literal["at_watermark"]
    early: "AnyTrigger | None" = None
    late: "AnyTrigger | None" = None
    always: bool = False

    def trigger(self) -> triggers.AtWatermark:
        """Make the definition's trigger, checked by its own rules."""
        early, late = (None if part is None else part.trigger() for part in (self.early, self.late))
        return triggers.AtWatermark(early=early, late=late, always=self.always)


class EveryForm(TriggerForm):
    """At the end of a period of processing time in which rows came; periods end at multiples of it."""

    type: Literal["every"]
    period: Duration

    def trigger(self) -> triggers.Every:
        """Make the definition's trigger, checked by its own rules."""
        return triggers.Every(self.period)


class AfterDelayForm(TriggerForm):
    """Trigger a delay after the first row, in processing time."""

    type: Literal["after_delay"]
    delay: Duration

    def trigger(self) -> triggers.AfterDelay:
        """Make the definition's trigger, checked by its own rules."""
        return triggers.AfterDelay(self.delay)


class AfterCountForm(TriggerForm):
    """With the n-th row."""

    type: Literal["after_count"]
    rows: int = Field(ge=1, description="a whole number of rows, at least 1")

    def trigger(self) -> triggers.AfterCount:
        """Make the definition's trigger, checked by its own rules."""
        return triggers.AfterCount(self.rows)


class EachEpochForm(TriggerForm):
    """At the end of an epoch (a micro-batch) in which rows came."""

    type: Literal["each_epoch"]

    def trigger(self) -> triggers.EachEpoch:
        """Make the definition's trigger, checked by its own rules."""
        return triggers.EachEpoch()


class RepeatForm(TriggerForm):
    """A trigger over and over."""

    type: Literal["repeat"]
    of: "AnyTrigger"

    def trigger(self) -> triggers.Repeat:
        """Make the definition's trigger, checked by its own rules."""
        return triggers.Repeat(self.of.trigger())


class UntilForm(TriggerForm):
    """A trigger until another one fires; then a last time, and that was it."""

    type: Literal["until"]
    of: "AnyTrigger"
    until: "OnceForm"

    def trigger(self) -> triggers.Until:
        """Make the definition's trigger, checked by its own rules."""
        limit: Once = self.until.trigger()
        return triggers.Until(self.of.trigger(), limit)


class SequenceForm(TriggerForm):
    """Triggers one after the other."""

    type: Literal["sequence"]
    parts: list["AnyTrigger"] = Field(min_length=1, description="a list of at least one trigger")

    def trigger(self) -> triggers.Sequence:
        """Make the definition's trigger, checked by its own rules."""
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


def _reject_as(error: DefinitionError) -> None:
    """Reject an object with the message of the definition, which has the form `...: expected ..., got ....`."""
    message, _, hint = str(error).partition("\nHint: ")
    _, _, facts = message.partition(": expected ")
    expected, _, value = facts.rpartition(", got ")
    reject(expected, actual=value.removesuffix("."), hint=hint)
