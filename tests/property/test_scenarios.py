"""Whatever stands in a scenario file, it is read or refused with a message; nothing else ever happens."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.errors import DefinitionError
from cutover.panes import batch, reference
from cutover.scenarios import words
from cutover.scenarios.parse import FOR_PEOPLE, READ, parse
from cutover.scenarios.show import to_json
from tests.support import figures

WORDS = st.sampled_from(
    [*words.TRIGGERS, *words.WINDOWS, "1 MINUTE", "2", "(", ")", ",", ".", "=", "early", "late", "'UTC'", "once", "["]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
)
TIMES = st.sampled_from(["12:00:00", "12:06:30", "-00:00:01", "+inf", "-inf", "1969-12-31T23:59:59Z", "noon"])
OBJECTS = st.dictionaries(
    st.sampled_from(
        ["event_time", "processing_time", "event_ms", "value", "key", "watermark", "out_of_orderness", "sum"]
    ),
    SCALARS | TIMES,
    max_size=4,
)
VALUES = SCALARS | TIMES | OBJECTS | st.lists(OBJECTS | TIMES, max_size=3)


@given(
    number=st.sampled_from(sorted(figures.FIGURES)),
    changed=st.dictionaries(st.sampled_from([*READ, *FOR_PEOPLE, "other"]), VALUES, max_size=3),
)
def test_scenario_is_run_or_refused(number: int, changed: dict[str, Any]) -> None:
    refused, scenario = None, None
    try:
        scenario = parse({**figures.given(number), **changed}, default_title="x")
    except DefinitionError as error:
        refused = str(error)
    if scenario is None:
        assert refused is not None
        assert ": expected " in refused
        return
    for runner in (reference.run, batch.run):
        assert to_json(scenario, "any", runner(scenario.setting))["schema"] == 1


@given(text=st.lists(WORDS, max_size=12).map(" ".join) | st.lists(WORDS, max_size=12).map("".join) | st.text())
@pytest.mark.parametrize("read", [words.window, words.trigger])
def test_expression_is_read_or_refused(read: Any, text: str) -> None:
    try:
        found = read(text)
    except DefinitionError:
        return
    assert found == read(f"  {text}")
