"""Scenario files of any content: each is read or rejected with a message; nothing else ever happens."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.cli.simulate import to_json
from cutover.errors import DefinitionError
from cutover.panes import reference
from cutover.scenarios.compare import compare_outcome
from cutover.scenarios.plot import draw_scenario
from cutover.scenarios.reading.forms import ScenarioForm
from cutover.scenarios.reading.parse import parse_cases, parse_scenario
from tests.support.pages import figures

TYPES = ["fixed", "sliding", "daily", "sessions", "global", "at_watermark", "every", "after_delay", "after_count"]
TYPES += ["each_epoch", "repeat", "until", "sequence", "steps", "estimator", "ideal", "bounded", "ends", "Every(1)"]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
)
TIMES = st.sampled_from(["12:00:00", "12:06:30", "-00:00:01", "+inf", "-inf", "1969-12-31T23:59:59Z", "noon"])
DURATIONS = st.sampled_from(["1 minute", "30 seconds", "0 seconds", "2 MINUTES", "forever"])
NAMES = ["event_time", "processing_time", "value", "key", "watermark", "out_of_orderness", "size", "every", "period"]
NAMES += ["delay", "rows", "of", "until", "parts", "early", "late", "always", "gap", "zone", "offset", "steps", "at"]
NAMES += ["window_start", "window_end", "kind", "unaligned"]
LEAVES = SCALARS | TIMES | DURATIONS
TYPED = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.builds(
            lambda kind, more: {"type": kind, **more},
            st.sampled_from(TYPES),
            st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        )
    ),
    max_leaves=6,
)
FIELDS = [field.alias or name for name, field in ScenarioForm.model_fields.items()]


@given(
    number=st.sampled_from(sorted(figures.FIGURES)),
    changes=st.dictionaries(st.sampled_from([*FIELDS, "other"]), TYPED, max_size=3),
)
def test_scenario_is_run_or_refused(number: int, changes: dict[str, Any]) -> None:
    refused, scenario = None, None
    try:
        scenario = parse_scenario({**figures.read_figure(number), **changes}, default_title="x")
    except DefinitionError as error:
        refused = str(error)
    if scenario is None:
        assert refused is not None
        assert ": expected " in refused
        assert ", got " in refused or "unknown field" in refused
        return
    for runner in (reference.run, reference.run_batch):
        outcome = runner(scenario.setting)
        assert to_json(scenario, "any", outcome)["schema"] == 2
        assert scenario.expected is None or compare_outcome(scenario, scenario.expected, outcome) is not None
        assert not scenario.setting.rows or draw_scenario(scenario, outcome).startswith("<svg ")


@given(number=st.sampled_from(sorted(figures.FIGURES)), at=st.integers(0, 10_000), cut=st.binary(max_size=3))
def test_file_with_other_bytes_in_it_is_read_or_refused_by_its_name(
    number: int, at: int, cut: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = json.dumps(
        {
            "points": figures.read_figure(number)["points"],
            "cases": [{k: v for k, v in figures.read_figure(number).items() if k != "points"}],
        }
    ).encode()
    file: Path = tmp_path_factory.mktemp("drawn") / "scenario.json"
    place = at % len(content)
    file.write_bytes(content[:place] + cut + content[place + len(cut) :])
    refused = ""
    try:
        assert parse_cases(file)
    except DefinitionError as error:
        refused = str(error)
    assert not refused or refused.startswith("Scenario `scenario.json`: ")


@pytest.mark.quick
@given(number=st.sampled_from(sorted(figures.FIGURES)))
def test_panes_that_were_printed_are_what_the_check_expects(number: int) -> None:
    scenario = figures.scenario(number)
    outcome = reference.run(scenario.setting)
    printed = json.loads(json.dumps(to_json(scenario, "reference", outcome)))
    parsed = parse_scenario(
        {**figures.read_figure(number), **{name: printed[name] for name in ("panes", "dropped", "waiting")}},
        default_title="x",
    )

    assert parsed.expected is not None
    assert compare_outcome(parsed, parsed.expected, outcome) == ()
