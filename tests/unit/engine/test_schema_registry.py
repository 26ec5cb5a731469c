"""The client of a schema registry: which answers make records malformed, and which are errors of the infrastructure."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from cutover.engine.schema_store import fetch_schema
from cutover.errors import DefinitionError, LogError
from cutover.settings import RegistrySettings
from tests.support.servers.registry import Registry, make_certificate, small_registry

ORDER: dict[str, Any] = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with small_registry() as running:
        yield running


def settings_of(registry: Registry, **changes: Any) -> RegistrySettings:
    return RegistrySettings(**{"url": registry.url, "timeout_seconds": 0.1, **changes})


def test_the_schema_of_an_id_is_fetched(registry: Registry) -> None:
    number = registry.register(ORDER)

    assert json.loads(fetch_schema(settings_of(registry), number) or "") == ORDER


@pytest.mark.parametrize("kind", ["JSON", "PROTOBUF"])
def test_a_schema_of_another_kind_is_none(registry: Registry, kind: str) -> None:
    assert fetch_schema(settings_of(registry), registry.register("{}", kind=kind)) is None


def test_an_unknown_id_is_none_and_a_negative_one_is_not_asked_for(registry: Registry) -> None:
    assert fetch_schema(settings_of(registry), 7) is None
    assert fetch_schema(settings_of(registry), -7) is None
    assert registry.paths == ["/schemas/ids/7"]


def test_a_schema_of_one_type_may_have_no_quotes(registry: Registry) -> None:
    assert fetch_schema(settings_of(registry), registry.register("string")) == '"string"'


def test_referenced_schemas_are_inserted_once(registry: Registry) -> None:
    money = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}
    registry.register_as("money", money)
    fields = [{"name": "price", "type": ["null", "Money"]}, {"name": "tax", "type": "shop.Money"}]
    order = {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}
    reference = {"name": "shop.Money", "subject": "money", "version": 1}

    schema = json.loads(fetch_schema(settings_of(registry), registry.register(order, references=[reference])) or "")

    assert [item["type"] for item in schema["fields"]] == [["null", money], "shop.Money"]


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (500, b"{}", "status 500"),
        (404, b"{}", "status 404"),
        (404, b'{"error_code": 40401}', "status 404"),
        (200, b"<html>", "no JSON object"),
        (200, b"[]", "no JSON object"),
        (200, b"{}", "without a schema"),
        (200, b'{"schema": "{"}', "without a schema"),
        (404, b'{"error_code": 40403}', None),
    ],
)
def test_only_the_word_of_a_registry_makes_an_id_unknown(
    registry: Registry, status: int, body: bytes, expected: str | None
) -> None:
    registry.status, registry.body = status, body

    if expected is None:
        assert fetch_schema(settings_of(registry), 1) is None
        return
    with pytest.raises(LogError, match=expected):
        fetch_schema(settings_of(registry), 1)


def test_no_answer_is_an_error_that_names_the_address() -> None:
    with pytest.raises(LogError, match=r"http://127\.0\.0\.1:9"):
        fetch_schema(RegistrySettings(url="http://127.0.0.1:9", timeout_seconds=0.1), 1)


def test_a_request_is_tried_again(registry: Registry) -> None:
    registry.status = 503
    with pytest.raises(LogError):
        fetch_schema(settings_of(registry, timeout_seconds=1.2), 1)

    assert len(registry.paths) > 1


def test_tls_is_verified_by_the_certificates_of_a_file(tmp_path: Path) -> None:
    certificate, other = make_certificate(tmp_path), make_certificate(tmp_path)
    with small_registry(certificate) as registry:
        registry.schemas[1] = {"subject": "orders", "schema": json.dumps(ORDER)}

        text = fetch_schema(settings_of(registry, ca_file=certificate), 1)

        assert text is not None
        assert json.loads(text) == ORDER
        for ca_file in (other, None):
            with pytest.raises(LogError, match="CERTIFICATE_VERIFY_FAILED") as caught:
                fetch_schema(settings_of(registry, ca_file=ca_file), 1)
            assert caught.value.runbook == "SchemaRegistryUnusable"


def test_credentials_are_sent_and_never_shown(registry: Registry) -> None:
    number = registry.register(ORDER)
    registry.login = "reader:s3cret"

    assert fetch_schema(settings_of(registry, user="reader", password=SecretStr("s3cret")), number)
    with pytest.raises(DefinitionError, match="rejected the credentials") as caught:
        fetch_schema(settings_of(registry, user="reader", password=SecretStr("0ther")), number)
    assert "0ther" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://user:s3cret@host:1", "host:8081", "ftp://host", "http://host?a=s3cret", ""])
def test_an_address_has_no_password(url: str) -> None:
    with pytest.raises(ValidationError) as caught:
        RegistrySettings(url=url)
    assert "s3cret" not in str(caught.value.errors(include_input=False))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"url": None}, "registry.url"),
        ({"user": "reader"}, "registry.user"),
        ({"user": "reader", "password_file": "missing"}, "registry.password_file"),
        ({"ca_file": "missing.pem"}, "registry.ca_file"),
    ],
)
def test_invalid_settings_are_named(registry: Registry, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        fetch_schema(settings_of(registry, **changes), 1)
