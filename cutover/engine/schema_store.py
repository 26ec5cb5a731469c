"""Schemas of a registry, stored in the lake at `<lake>/_control/schemas/<id>.json`, so that each is fetched once.

An id has one schema for good, so what is stored is never fetched again: a restart and a comparison need no registry,
and an answer of the registry that changes afterwards changes no result. That it has no schema of an id is stored, too:
otherwise a record could be malformed for the stream and not for batch.
"""

import json
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
from cutover.records.parsing.writer_schemas import WriterSchema, list_avro_topics
from cutover.settings import Settings

MAX_UNKNOWN = 1_000
"""Maximum number of ids without a schema; a topic with more is not in this format, and each would be a request."""


def read_digests(settings: Settings, pipeline: Pipeline) -> dict[str, str]:
    """Return the digest of each stored schema by its id; empty for a pipeline without Avro."""
    if not list_avro_topics(pipeline):
        return {}
    return {str(number): schema.digest for number, schema in sorted(SchemaStore(settings).list_known().items())}


class SchemaStore:
    """Store of one installation, as one process reads it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[int, WriterSchema] | None = None

    @property
    def uri(self) -> str:
        """Return the folder; it need not exist."""
        return f"{self._settings.lake_uri}/{CONTROL_FOLDER}/schemas"

    def list_known(self) -> Mapping[int, WriterSchema]:
        """Return all schemas that are stored, by id.

        Raises:
            LakeError: A file is not one that Cutover wrote.
        """
        if self._known is None:
            self._known = self._read()
        return self._known

    def learn(self, ids: Collection[int]) -> None:
        """Read the schemas of some ids from the store, or else fetch and store them.

        Raises:
            LogError: The registry does not respond, or too many ids have no schema.
        """
        known = self._read()
        for number in sorted(set(ids) - set(known)):
            if sum(schema.text is None for schema in known.values()) >= MAX_UNKNOWN:
                msg = f"Schema registry `{self._settings.registry.url}`: expected the schemas of a topic's values, "
                hint = "\nHint: they are not in Confluent's wire format, or it is not the registry of this topic."
                raise LogError(msg + f"it has none of {MAX_UNKNOWN:,} ids." + hint)
            schema = WriterSchema(id=number, text=fetch_schema(self._settings.registry, number))
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

    @staticmethod
    def _read_file(system: fs.FileSystem, path: str) -> WriterSchema:
        try:
            with system.open_input_stream(path) as stream:
                content = json.loads(stream.read())
            schema, digest = WriterSchema(id=int(content["id"]), text=content["schema"]), content["digest"]
            problem = None if schema.digest == digest else f"digest {schema.digest} instead of {digest}"
        except (OSError, ValueError, KeyError, TypeError) as error:
            problem = f"{type(error).__name__}: {error}"
        if problem is not None:
            msg = f"Stored schema `{path}`: expected one that Cutover wrote, got {problem}."
            hint = "\nHint: restore it from a copy; or delete it, and it is fetched again."
            raise LakeError(msg + hint, runbook="TableUnreadable")
        return schema

    def _write(self, schema: WriterSchema) -> None:
        text = json.dumps({"id": schema.id, "digest": schema.digest, "schema": schema.text}, indent=1)
        system, folder = storage.resolve_uri(self.uri)
        path = f"{folder}/{schema.id}.json"
        if isinstance(system, fs.LocalFileSystem):
            files.write_atomically(Path(path), f"{text}\n", mode=0o644, durable=True)
            return
        with system.open_output_stream(path) as stream:
            stream.write(text.encode())
