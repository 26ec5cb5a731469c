"""Where settings in force differ: item, who and both values."""

import json

from cutover.engine.in_force import NOT_SET, InForce, Ran, drifts


def ran(who: str, **families: dict[str, str]) -> Ran:
    return Ran(who=who, in_force=InForce(families))


def test_an_item_that_differs_is_named_with_who_ran_with_what() -> None:
    sides = [ran("batch", spark={"a": "1", "b": "2"}), ran("stream", spark={"a": "1", "b": "3"})]

    (found,) = drifts(sides)

    assert (found.item, found.values) == ("spark `b`", (("batch", "2"), ("stream", "3")))
    assert (
        found.text
        == "Setting in force, spark `b`: expected one value, got several: batch ran with `2`; stream ran with `3`."
    )


def test_an_item_that_one_side_does_not_name_is_not_set_there() -> None:
    (found,) = drifts([ran("batch", spark={}), ran("stream", spark={"b": "3"})])

    assert found.values == (("batch", NOT_SET), ("stream", "3"))


def test_a_family_that_a_side_does_not_report_is_not_compared_with_it() -> None:
    assert drifts([ran("batch", spark={"a": "1"}), ran("here", code={"m": "x"})]) == ()


def test_sides_of_one_value_stand_together() -> None:
    (found,) = drifts([ran(who, jvm={"locale": value}) for who, value in (("a", "en"), ("b", "tr"), ("c", "en"))])

    assert found.values == (("a and c", "en"), ("b", "tr"))


def test_a_digest_is_of_the_values_and_not_of_their_order() -> None:
    one, other = InForce({"a": {"x": "1", "y": "2"}, "b": {}}), InForce({"b": {}, "a": {"y": "2", "x": "1"}})

    assert one.digest == other.digest == InForce(json.loads(json.dumps(one.families))).digest
    assert one.digest != InForce({"a": {"x": "1", "y": "3"}, "b": {}}).digest
