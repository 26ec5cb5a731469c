"""Form of a scenario file: one scenario, or several cases with shared fields.

Published as a JSON schema: `python -m cutover.scenarios.reading.forms` prints `docs/scenarios/scenario.schema.json`.

Windows, triggers and watermarks are objects with a `type` and its fields. Unknown fields and values that no definition
accepts are rejected; nothing is ignored.
"""

import inspect
import json
import sys
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Union

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from cutover.definition.model import triggers
from cutover.definition.model.triggers import Once, Trigger
from cutover.definition.windows.kinds import KINDS, Window, WindowKind
from cutover.errors import DefinitionError
from cutover.scenarios.reading.texts import Duration, FiniteTime, KeyText, Time, Value, reject_value


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
    reject_value(expected, actual=value.removesuffix("."), hint=hint)


MeasureName = Literal["sum", "min", "max", "avg", "count"]
AccumulationName = Literal["discarding", "accumulating", "retracting"]
TimingName = Literal["early", "on_time", "late"]
KindName = Literal["early", "on_time", "late", "retraction"]
ReasonName = Literal["too_late", "trigger_ended"]


class PointForm(Form):
    """One row."""

    event_time: FiniteTime
    processing_time: FiniteTime
    key: KeyText = None
    value: Value = None  # read by the measure; required by all but `count`


class PeriodicEpochsForm(Form):
    """Epochs that end at multiples of a period of processing time, where rows came."""

    type: Literal["every"]
    period: Duration


class ListedEpochsForm(Form):
    """Epochs that end at these times."""

    type: Literal["ends"]
    at: list[FiniteTime] = Field(min_length=1, description="a list of ascending times, at least one")


AnyEpochs = Annotated[
    PeriodicEpochsForm | ListedEpochsForm,
    Field(discriminator="type", description="when epochs end: an object with a `type`"),
]


class PaneForm(Form):
    """Expected pane. Omitted fields are not compared, except for the key, which is null if omitted."""

    window_start: Time
    window_end: Time
    key: KeyText = None
    value: Value
    kind: KindName | None = None
    processing_time: FiniteTime | None = None
    timing: TimingName | None = None
    index: int | None = None
    retracts: Value = None
    with_pane: TimingName | None = None


class DroppedForm(Form):
    """One row that a window is expected not to take."""

    event_time: FiniteTime
    processing_time: FiniteTime
    key: KeyText = None
    window_start: Time
    window_end: Time
    reason: ReasonName


class WaitingForm(Form):
    """Rows that no pane is expected to show."""

    window_start: Time
    window_end: Time
    key: KeyText = None
    rows: int = Field(ge=1, description="a whole number of rows, at least 1")


class ScenarioForm(Form):
    """Rows, a watermark, a window, a trigger and an accumulation; and the panes that are expected of them."""

    schema_: str | None = Field(default=None, alias="$schema", description="the address of the schema, for editors")
    case: int | None = Field(default=None, description="a whole number, by which `--case` finds it")
    title: str | None = Field(default=None, description="a text")
    description: str | None = Field(default=None, description="a text for people")
    points: list[PointForm] = Field(description="a list of rows, those of one moment in the order of their arrival")
    window: AnyWindow
    trigger: AnyTrigger | None = None  # None: repeat at_watermark
    accumulation: AccumulationName = Field(description="discarding, accumulating or retracting")
    measure: MeasureName = "sum"
    watermark: AnyWatermark | None = None  # None: none at all, every pane is early
    allowed_lateness: Duration | None = None  # None: without end
    epochs: AnyEpochs | None = None
    panes: list[PaneForm] | None = None
    panes_within: Duration | None = None  # how far the processing time of a pane may lie from the one that is expected
    dropped: list[DroppedForm] | None = None
    waiting: list[WaitingForm] | None = None


FOR_PEOPLE = ("title", "description")
"""Fields allowed both next to `cases` and in a case."""

SHARED = tuple(field.alias or name for name, field in ScenarioForm.model_fields.items() if name != "case")
"""Fields allowed next to `cases`, where they apply to all of them."""


def make_json_schema() -> dict[str, Any]:
    """Return the JSON schema of a file: one scenario, or several cases that have what the file does not say for all."""
    fields = ScenarioForm.model_fields
    optional: dict[str, Any] = {
        name: (Annotated[field.rebuild_annotation(), None] | None, Field(default=None, alias=field.alias))
        for name, field in fields.items()
    }
    numbered = (int, Field(description=fields["case"].description))
    case = create_model("CaseForm", __base__=Form, **{**optional, "case": numbered})
    shared = {name: value for name, value in optional.items() if name != "case"}
    several = create_model("CasesForm", __base__=Form, **shared, cases=(list[case], Field(min_length=1)))
    either = create_model("FileForm", file=(ScenarioForm | several, ...))
    forms = either.model_json_schema()["$defs"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A scenario of `cutover simulate`",
        "description": "docs/scenarios.md says what each field means.",
        "anyOf": [{"$ref": "#/$defs/ScenarioForm"}, {"$ref": "#/$defs/CasesForm"}],
        "$defs": dict(sorted(forms.items())),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(make_json_schema(), indent=1, ensure_ascii=False) + "\n")
