"""Schemas of a registry, stored in the lake at `<lake>/_control/schemas/<id>.json`, so that each is fetched once.

An id has one schema for good, so what is stored is never fetched again: a restart and a comparison need no registry,
and an answer of the registry that changes afterwards changes no result. That it has no schema of an id is stored for
ten minutes: a schema may be registered after its first record. Then it is asked again, and where it does not respond
the earlier answer counts on. Epochs and batch runs record which answer they read by.

The registry has the API of Confluent's. No answer is an error of the infrastructure, never of a record. Only the
registry's own word that it has no schema of an id, or one of another kind than Avro, makes the records of that id
malformed.
"""

import json
import ssl
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyarrow import fs

from cutover import files
from cutover.definition.model.joins import CONTROL_FOLDER
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import storage
from cutover.errors import CutoverError, DefinitionError, LakeError, LogError
from cutover.events import log
from cutover.log.options import read_password
from cutover.records.parsing.writer_schemas import WriterSchema, bind_source, list_avro_topics
from cutover.settings import RegistrySettings, Settings

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


UNKNOWN_SECONDS = 600.0
"""Time after which the registry is asked again for a schema that it did not have."""

MAX_UNKNOWN = 1_000
"""Maximum number of ids without a schema; a topic with more is not in this format, and each would be a request."""


def read_digests(settings: Settings, pipeline: Pipeline) -> dict[str, str]:
    """Return the digest of each stored schema by its id; empty for a pipeline without Avro."""
    if not list_avro_topics(pipeline):
        return {}
    return {str(number): schema.digest for number, schema in sorted(SchemaStore(settings).list_known().items())}


def bind_schemas(settings: Settings) -> None:
    """Let this process parse values in Avro by the schemas of an installation."""
    bind_source(SchemaStore(settings))


class SchemaStore:
    """Store of one installation, as one process reads it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[int, WriterSchema] | None = None
        self._asked: dict[int, float] = {}  # id without a schema -> when the registry said so

    @property
    def uri(self) -> str:
        """Return the folder; it need not exist."""
        return f"{self._settings.lake_uri}/{CONTROL_FOLDER}/schemas"

    def list_known(self) -> Mapping[int, WriterSchema]:
        """Return all schemas that are stored, by id, without ids for which the registry is to be asked again.

        Raises:
            LakeError: A file is not one that Cutover wrote.
        """
        if self._known is None:
            self._known = self._read()
        return {number: schema for number, schema in self._known.items() if not self._is_outdated(schema)}

    def _is_outdated(self, schema: WriterSchema) -> bool:
        asked_at = self._asked.get(schema.id, 0.0)
        return schema.text is None and not asked_at <= time.time() < asked_at + UNKNOWN_SECONDS

    def learn(self, ids: Collection[int]) -> None:
        """Read the schemas of some ids from the store, or else fetch and store them.

        Raises:
            LogError: The registry does not respond, or too many ids have no schema.
        """
        known = self._read()
        for number in sorted(number for number in set(ids) if number not in known or self._is_outdated(known[number])):
            if sum(schema.text is None for schema in known.values()) >= MAX_UNKNOWN:
                msg = f"Schema registry `{self._settings.registry.url}`: expected the schemas of a topic's values, "
                hint = "\nHint: they are not in Confluent's wire format, or it is not the registry of this topic."
                raise LogError(msg + f"it has none of {MAX_UNKNOWN:,} ids." + hint, runbook="SchemaRegistryUnusable")
            self._asked[number] = time.time()
            try:
                schema = WriterSchema(id=number, text=fetch_schema(self._settings.registry, number))
            except LogError as error:
                if number not in known:
                    raise
                log.warning("schema_not_asked_again", id=number, error=error.text.partition("\n")[0])
                continue
            self._write(schema)
            known[number] = schema
            log.info("schema_stored", id=number, digest=schema.digest, is_known=schema.text is not None)
        self._known = known

    def _read(self) -> dict[int, WriterSchema]:
        system, folder = storage.resolve_uri(self.uri)
        selector = fs.FileSelector(folder, allow_not_found=True)
        paths = sorted(info.path for info in system.get_file_info(selector) if info.path.endswith(".json"))
        schemas = [self._read_file(system, path) for path in paths if not path.rpartition("/")[2].startswith(".")]
        return {schema.id: schema for schema in schemas}

    def _read_file(self, system: fs.FileSystem, path: str) -> WriterSchema:
        try:
            with system.open_input_stream(path) as stream:
                content = json.loads(stream.read())
            schema, digest = WriterSchema(id=int(content["id"]), text=content["schema"]), content["digest"]
            asked_at = float(content.get("asked_at", 0))
            problem = None if schema.digest == digest else f"digest {schema.digest} instead of {digest}"
        except (OSError, ValueError, KeyError, TypeError) as error:
            problem = f"{type(error).__name__}: {error}"
        else:
            self._asked[schema.id] = max(asked_at, self._asked.get(schema.id, 0.0))
        if problem is not None:
            msg = f"Stored schema `{path}`: expected one that Cutover wrote, got {problem}."
            hint = "\nHint: restore it from a copy; or delete it, and it is fetched again."
            raise LakeError(msg + hint, runbook="TableUnreadable")
        return schema

    def _write(self, schema: WriterSchema) -> None:
        asked_at = self._asked[schema.id]
        content = {"id": schema.id, "digest": schema.digest, "schema": schema.text, "asked_at": asked_at}
        text = json.dumps(content, indent=1)
        system, folder = storage.resolve_uri(self.uri)
        path = f"{folder}/{schema.id}.json"
        if isinstance(system, fs.LocalFileSystem):
            files.write_atomically(Path(path), f"{text}\n", mode=0o644, durable=True)
            return
        with system.open_output_stream(path) as stream:
            stream.write(text.encode())
