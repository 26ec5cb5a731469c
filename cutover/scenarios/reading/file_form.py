"""Form of a scenario file: one scenario, or several cases with shared fields. Published as a JSON schema."""

from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from cutover.scenarios.reading.forms import AnyTrigger, AnyWatermark, AnyWindow, Form
from cutover.scenarios.reading.texts import Duration, FiniteTime, KeyText, Time, Value

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


def make_schema() -> dict[str, Any]:
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
