"""Readings of JSON fields by type and role in the topic, and lookups that need their dimension."""

from typing import Any
from unittest.mock import Mock

import pytest

from cutover.definition import Count, Fixed, Lookup, Pipeline, Topic
from cutover.errors import DefinitionError
from cutover.records.enrich import join_dimensions
from cutover.records.parsing.field_sql import FieldSql, make_field_sqls

SCHEMA = (
    "at timestamp NOT NULL, seen timestamp, whole bigint NOT NULL, flag boolean, part double, text string, day date, "
    "price decimal(9,2)"
)


def by_name(time_format: str) -> dict[str, FieldSql]:
    topic = Topic(name="t", schema=SCHEMA, event_time="at", time_format=time_format)
    return {field.name: field for field in make_field_sqls(topic)}


def test_fields_are_read_in_the_order_of_the_schema() -> None:
    assert list(by_name("iso")) == ["at", "seen", "whole", "flag", "part", "text", "day", "price"]


@pytest.mark.parametrize(
    ("time_format", "strict"),
    [
        ("iso", {"whole", "flag", "part"}),
        ("seconds", {"at", "seen", "whole", "flag", "part"}),
        ("millis", {"at", "seen", "whole", "flag", "part"}),
    ],
)
def test_lenient_types_are_read_with_their_own_kind(time_format: str, strict: set[str]) -> None:
    fields = by_name(time_format)

    assert {name for name, field in fields.items() if not field.is_variant} == strict
    assert (fields["whole"].read_as, fields["flag"].read_as, fields["part"].read_as) == ("bigint", "boolean", "double")


@pytest.mark.parametrize("time_format", ["seconds", "millis"])
def test_a_number_that_is_no_time_is_a_wrong_type_in_every_field_but_the_event_time(time_format: str) -> None:
    never_wrong = {name for name, field in by_name(time_format).items() if field.is_present is None}

    assert never_wrong == {"at", "whole", "flag"}


def test_invalid_time_texts_are_distinguished_from_numbers() -> None:
    never_wrong = {name for name, field in by_name("iso").items() if field.is_present is None}

    assert never_wrong == {"whole", "flag"}


def test_only_texts_of_iso_times_hold_colons() -> None:
    assert {name for name, field in by_name("iso").items() if field.has_colons} == {"at", "seen"}
    assert {name for name, field in by_name("seconds").items() if field.has_colons} == set()


def test_lookup_without_its_dimension_is_rejected_by_name() -> None:
    pipeline = Pipeline(
        name="p",
        source=Topic(name="t", schema="at timestamp, ad string", event_time="at"),
        lookups={"ads": Lookup(table="ads", on={"ad": "id"}, columns={"campaign": "bigint"})},
        key=("campaign",),
        window=Fixed(hours=1),
        measures={"n": Count()},
    )
    rows: Any = Mock(columns=["_partition", "_offset", "at", "ad"])

    with pytest.raises(DefinitionError, match="Pipeline `p`: expected the dimension of lookup `ads`, got none"):
        join_dimensions(rows, pipeline, {"campaigns": Mock()})
