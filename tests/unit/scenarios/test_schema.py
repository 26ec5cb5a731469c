"""Published schema: it matches the code, and every file that the code accepts is valid."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cutover.errors import DefinitionError
from cutover.scenarios.reading.forms import make_json_schema
from cutover.scenarios.reading.parse import parse_scenario
from tests.support.pages.figures import DOCS, EXAMPLES, FIGURES

SCHEMA = json.loads((DOCS / "scenario.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)


def test_published_schema_is_the_one_of_the_code() -> None:
    assert make_json_schema() == SCHEMA, (
        "python -m cutover.scenarios.reading.forms > docs/scenarios/scenario.schema.json"
    )


def test_published_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)
def test_file_of_the_documentation_is_valid(example: Any) -> None:
    document = json.loads(example.read_text(encoding="utf-8"))

    assert [error.message for error in VALIDATOR.iter_errors(document)] == []


@settings(suppress_health_check=[HealthCheck.too_slow])  # the first draw compiles what the strategies need
@given(
    number=st.sampled_from(sorted(FIGURES)),
    changes=st.dictionaries(
        st.sampled_from(["window", "trigger", "watermark", "epochs", "points", "allowed_lateness", "panes", "other"]),
        st.none()
        | st.integers()
        | st.text(max_size=8)
        | st.fixed_dictionaries({"type": st.sampled_from(["fixed", "every", "ideal", "global", "steps"])})
        | st.fixed_dictionaries(
            {"type": st.just("every"), "period": st.sampled_from(["1 minute", "1 MINUTE", "soon"])}
        ),
        max_size=2,
    ),
)
def test_every_accepted_file_is_valid(number: int, changes: dict[str, Any]) -> None:
    document = {**FIGURES[number], **changes}
    try:
        parse_scenario(document, default_title="x")
    except DefinitionError:
        return
    assert VALIDATOR.is_valid(document)
