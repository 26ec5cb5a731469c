"""Addresses of tables: their parts, and what may be shown of them."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.errors import DefinitionError
from cutover.sources.addresses import HIDDEN, mask_source, parse_table_address

PASSWORD = "geheim-7731"  # noqa: S105 -- planted


def test_an_address_names_server_and_table() -> None:
    address = parse_table_address("postgresql://ann@db.example:5433/shop?sslmode=require#sales.daily")

    assert address is not None
    assert (address.scheme, address.host, address.path, address.table) == (
        "postgresql",
        "db.example:5433",
        "/shop",
        "sales.daily",
    )
    assert address.url == "postgresql://ann@db.example:5433/shop?sslmode=require"


def test_an_address_may_come_from_a_variable_and_is_shown_by_its_name() -> None:
    environment = {"SHOP_DB": f"postgresql://ann:{PASSWORD}@db.example/shop"}

    address = parse_table_address("env:SHOP_DB#sales.daily", environment)

    assert address is not None
    assert (address.shown, address.table) == ("env:SHOP_DB#sales.daily", "sales.daily")
    assert address.url == environment["SHOP_DB"]


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(DefinitionError, match=r"`SHOP_DB`, it is not set[\s\S]*export SHOP_DB="):
        parse_table_address("env:SHOP_DB#sales.daily", {})


@pytest.mark.parametrize(
    "place", ["a.parquet", "lake/table@v7", "s3://bucket/table@v7", "abfss://box@account/t", "C:x"]
)
def test_files_and_stores_are_no_address_of_a_server(place: str) -> None:
    assert parse_table_address(place) is None
    assert mask_source(place) == place


@pytest.mark.parametrize(
    "source",
    [
        f"postgresql://ann:{PASSWORD}@db/shop#t",
        f"postgresql://ann:{PASSWORD}/x@db/shop#t",  # a slash in a password that is not encoded
        f"postgresql://ann:a@{PASSWORD}@db/shop#t",
        f"postgresql://ann:#{PASSWORD}@db/shop#t",
        f"postgresql:/ann:{PASSWORD}@db/shop",
        f"postgresql:ann:{PASSWORD}@db/shop",
        f"postgresql://db/shop?password={PASSWORD}#t",
        f"postgresql://db/shop?user=ann&sslpassword={PASSWORD}",
        f"snowflake://ann:{PASSWORD}@account/db?private_key={PASSWORD}#t",
        f"host=db user=ann password={PASSWORD}",
        f"host=db user=ann password = '{PASSWORD} and more'",
        f"s3://key:{PASSWORD}@bucket/table",
        f"https://ann:{PASSWORD}@db/file.parquet",
        f"abfss://box@account/table?sig={PASSWORD}",
    ],
)
def test_a_password_is_shown_in_no_form_of_an_address(source: str) -> None:
    shown = mask_source(source)
    try:
        address = parse_table_address(source)
    except DefinitionError as error:
        shown += str(error)
    else:
        shown += "" if address is None else address.shown + repr(address) + address.redact(f"no server at {source}")

    assert PASSWORD not in shown
    assert HIDDEN in shown


@given(password=st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=4, max_size=12))
def test_any_password_is_hidden_in_an_address_and_in_what_a_driver_says(password: str) -> None:
    source = f"postgresql://ann:{quote(password, safe='')}@db/shop#t"
    address = parse_table_address(source)

    assert address is not None
    message = address.redact(
        f"cannot log in as ann with [{password}] or [{quote(password, safe='')}]".replace("\n", " ")
    )
    for shown in (address.shown, repr(address)):
        assert f":{quote(password, safe='')}@" not in shown
    assert f"[{password}]" not in message
    assert f"[{quote(password, safe='')}]" not in message


def test_a_user_and_harmless_parameters_are_shown() -> None:
    source = f"postgresql://ann:{PASSWORD}@db/shop?sslmode=require&options=x#t"

    assert mask_source(source) == f"postgresql://ann:{HIDDEN}@db/shop?sslmode=require&options={HIDDEN}#t"
    assert mask_source("iceberg://shop/sales.daily@snapshot=42") == "iceberg://shop/sales.daily@snapshot=42"
