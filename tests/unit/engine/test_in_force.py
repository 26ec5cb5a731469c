"""Differences between effective settings: item, process and both values."""

import json

from cutover.engine.effective_settings import NOT_SET, EffectiveSettings, ReportedSettings, find_drifts


def make_ran(process: str, **families: dict[str, str]) -> ReportedSettings:
    return ReportedSettings(reporter=process, settings=EffectiveSettings(families))


def test_a_differing_item_is_named_with_each_process_and_value() -> None:
    sides = [make_ran("batch", spark={"a": "1", "b": "2"}), make_ran("stream", spark={"a": "1", "b": "3"})]

    (drift,) = find_drifts(sides)

    assert (drift.item, drift.values) == ("spark `b`", (("batch", "2"), ("stream", "3")))
    assert (
        drift.text
        == "Setting in force, spark `b`: expected one value, got several: batch ran with `2`; stream ran with `3`."
    )


def test_an_item_missing_on_one_side_is_shown_as_not_set() -> None:
    (drift,) = find_drifts([make_ran("batch", spark={}), make_ran("stream", spark={"b": "3"})])

    assert drift.values == (("batch", NOT_SET), ("stream", "3"))


def test_a_family_that_a_side_does_not_report_is_not_compared_with_it() -> None:
    assert find_drifts([make_ran("batch", spark={"a": "1"}), make_ran("here", code={"m": "x"})]) == ()


def test_sides_with_one_value_are_grouped() -> None:
    (drift,) = find_drifts(
        [make_ran(process, jvm={"locale": value}) for process, value in (("a", "en"), ("b", "tr"), ("c", "en"))]
    )

    assert drift.values == (("a and c", "en"), ("b", "tr"))


def test_a_digest_is_of_the_values_and_not_of_their_order() -> None:
    families, other = (
        EffectiveSettings({"a": {"x": "1", "y": "2"}, "b": {}}),
        EffectiveSettings({"b": {}, "a": {"y": "2", "x": "1"}}),
    )

    assert families.digest == other.digest == EffectiveSettings(json.loads(json.dumps(families.families))).digest
    assert families.digest != EffectiveSettings({"a": {"x": "1", "y": "3"}, "b": {}}).digest
