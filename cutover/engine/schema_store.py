"""Schemas of a registry, stored in the lake at `<lake>/_control/schemas/<id>.json`, so that each is fetched once.

An id has one schema for good, so what is stored is never fetched again: a restart and a comparison need no registry,
and an answer of the registry that changes afterwards changes no result. That it has no schema of an id is stored for
ten minutes: a schema may be registered after its first record. Then it is asked again, and where it does not respond
the earlier answer counts on. Epochs and batch runs record which answer they read by.
"""

import json
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from pyarrow import fs

from cutover import files
from cutover.definition.model.joins import CONTROL_FOLDER
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import storage
from cutover.errors import LakeError, LogError
from cutover.events import log
from cutover.log.schema_registry import fetch_schema
from cutover.records.parsing.writer_schemas import WriterSchema, bind_source, list_avro_topics
from cutover.settings import Settings

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
