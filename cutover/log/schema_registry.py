"""Client of a schema registry with the API of Confluent's: the schema of an id.

No answer is an error of the infrastructure, never of a record. Only the registry's own word that it has no schema of an
id, or one of another kind than Avro, makes the records of that id malformed.
"""

import json
import ssl
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from cutover.errors import CutoverError, DefinitionError, LogError
from cutover.events import log
from cutover.log.options import read_password
from cutover.settings import RegistrySettings

_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 200, 401, 403, 404
_SCHEMA_NOT_FOUND = 40403
_RETRY_SECONDS = 0.5
_REQUEST_SECONDS = 5.0
_MAX_REFERENCES = 100


def fetch_schema(registry: RegistrySettings, number: int) -> str | None:
    """Fetch the schema of an id, with the schemas that it refers to inside of it; None if there is none in Avro.

    Raises:
        LogError: The registry does not respond, or not as a registry does.
        DefinitionError: It has no address, rejects the credentials, or a file of the settings cannot be read.
    """
    if registry.url is None:
        msg = "Topic in Avro: expected the address of a schema registry, got none."
        raise DefinitionError(msg + "\nHint: set `registry.url` in `cutover.toml`, or `CUTOVER_REGISTRY__URL`.")
    if number < 0:
        return None  # a registry counts from zero
    answer = _get(registry, f"schemas/ids/{number}")
    if answer is None or answer.get("schemaType", "AVRO") != "AVRO":
        return None
    document, references = _parse_schema(registry, answer), answer.get("references") or []
    if not references:
        return json.dumps(document)
    referenced: dict[str, Any] = {}
    _collect_references(registry, references, referenced)
    return json.dumps(_insert(document, "", referenced))


def _parse_schema(registry: RegistrySettings, answer: Mapping[str, Any]) -> Any:
    try:
        return json.loads(answer["schema"])
    except (KeyError, TypeError, ValueError):
        # A schema of one primitive type may be written without quotes.
        if isinstance(answer.get("schema"), str) and str(answer["schema"]).isalpha():
            return answer["schema"]
        raise _make_error(registry, "an answer without a schema") from None


def _collect_references(registry: RegistrySettings, references: Any, referenced: dict[str, Any]) -> None:
    for reference in references:
        name = str(reference["name"])
        if name in referenced:
            continue
        if len(referenced) >= _MAX_REFERENCES:
            raise _make_error(registry, f"a schema that refers to more than {_MAX_REFERENCES} others")
        path = f"subjects/{quote(str(reference['subject']), safe='')}/versions/{int(reference['version'])}"
        answer = _get(registry, path)
        if answer is None:
            raise _make_error(registry, f"no schema at `{path}`, to which another one refers")
        referenced[name] = _parse_schema(registry, answer)
        _collect_references(registry, answer.get("references") or [], referenced)


def _insert(schema: Any, namespace: str, referenced: dict[str, Any]) -> Any:
    """Insert each referenced schema where its name occurs first; it is removed from `referenced`."""
    if isinstance(schema, list):
        return [_insert(item, namespace, referenced) for item in schema]
    if isinstance(schema, str):
        name = schema if schema in referenced or not namespace else f"{namespace}.{schema}"
        if name not in referenced:
            return schema
        inner = referenced.pop(name)
        whole = {"namespace": "", **inner} if isinstance(inner, dict) and "name" in inner else inner
        return _insert(whole, "", referenced)
    if not isinstance(schema, dict):
        return schema
    inner_namespace = str(schema.get("namespace", namespace))
    if "." in str(schema.get("name", "")):
        inner_namespace = str(schema["name"]).rpartition(".")[0]
    inserted = dict(schema)
    for part in ("type", "items", "values"):
        if part in inserted:
            inserted[part] = _insert(inserted[part], inner_namespace, referenced)
    if isinstance(inserted.get("fields"), list):
        inserted["fields"] = [
            {**item, "type": _insert(item.get("type"), inner_namespace, referenced)} for item in inserted["fields"]
        ]
    return inserted


def _get(registry: RegistrySettings, path: str) -> dict[str, Any] | None:
    """Read one object, again until the time is over; None if the registry says that there is none."""
    deadline = time.monotonic() + registry.timeout_seconds
    while True:
        try:
            return _request(registry, path)
        except LogError as error:
            if time.monotonic() + _RETRY_SECONDS >= deadline:
                raise
            log.info("registry_retried", path=path, error=error.text.partition("\n")[0])
            time.sleep(_RETRY_SECONDS)


def _request(registry: RegistrySettings, path: str) -> dict[str, Any] | None:
    import httpx  # noqa: PLC0415 -- most processes ask no registry

    timeout = min(_REQUEST_SECONDS, registry.timeout_seconds)
    try:
        with httpx.Client(
            auth=_make_login(registry), verify=_make_context(registry), timeout=timeout, trust_env=False
        ) as client:
            response = client.get(f"{str(registry.url).rstrip('/')}/{path}")
    except httpx.HTTPError as error:
        raise _make_error(registry, f"no answer ({type(error).__name__}: {error})") from None
    if response.status_code in {_UNAUTHORIZED, _FORBIDDEN}:
        msg = f"Schema registry `{registry.url}`: expected an answer, it rejected the credentials "
        msg += f"({response.status_code})."
        hint = "\nHint: set `registry.user` and CUTOVER_REGISTRY__PASSWORD or `registry.password_file`."
        raise DefinitionError(msg + hint, runbook="SchemaRegistryUnusable")
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise _make_error(registry, f"an answer that is no JSON object ({response.status_code})")
    if response.status_code == _NOT_FOUND and body.get("error_code") == _SCHEMA_NOT_FOUND:
        return None
    if response.status_code != _OK:
        raise _make_error(registry, f"status {response.status_code}")
    return body


def _make_login(registry: RegistrySettings) -> tuple[str, str] | None:
    password = read_password(registry, of="registry")
    if (registry.user is None) != (password is None):
        msg = "`registry.user`: expected a user and a password, or neither, got one of them."
        raise DefinitionError(msg + "\nHint: set CUTOVER_REGISTRY__PASSWORD or `registry.password_file`.")
    return None if registry.user is None or password is None else (registry.user, password)


def _make_context(registry: RegistrySettings) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if registry.ca_file is None else str(registry.ca_file))
    except (OSError, ssl.SSLError) as error:
        msg = f"`registry.ca_file`: expected a PEM file with certificates, got `{registry.ca_file}` ({error})."
        raise DefinitionError(msg, runbook="SchemaRegistryUnusable") from None


def _make_error(registry: RegistrySettings, actual: str) -> CutoverError:
    msg = f"Schema registry `{registry.url}`: expected a schema, got {actual}."
    hint = "\nHint: start it, or correct `registry.url`; nothing was written, and stored schemas are read without it."
    return LogError(msg + hint, runbook="SchemaRegistryUnusable")
