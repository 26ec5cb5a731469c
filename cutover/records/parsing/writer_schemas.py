"""Schemas with which records were written in Avro, by the id in front of each value.

A value is a zero byte, the id of its schema in four bytes, and the record in Avro (the wire format of Confluent). The
process binds one source of schemas, which remembers the answers of the registry; parsers take what it knows, and a plan
of Spark that meets another id fails with `MET_SCHEMA` in its message.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from cutover.definition.model.pipeline import Pipeline, list_topics
from cutover.definition.model.topic import Topic
from cutover.errors import DefinitionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEAD_BYTES = 5
"""Bytes in front of a record: the zero byte and the id."""

MET_SCHEMA = "cutover met schema "
"""Text in front of the head of a value, in hexadecimal, in the message of a plan that does not know its schema."""

_MET = re.compile(rf"{MET_SCHEMA}([0-9A-F]{{10}})")

ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class WriterSchema:
    """Answer of a registry for one id."""

    id: int
    text: str | None  # of the schema, in JSON; None: the registry has no Avro schema of this id

    @cached_property
    def document(self) -> Any:
        """Return the schema as plain data; None if there is none."""
        return None if self.text is None else json.loads(self.text)

    @cached_property
    def digest(self) -> str:
        """Hash the schema, 12 hex digits; equal schemas may be written differently."""
        text = json.dumps(self.document, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def head(self) -> bytes:
        """Return the bytes in front of a record of this schema."""
        return b"\0" + self.id.to_bytes(HEAD_BYTES - 1, "big", signed=True)


class SchemaSource(Protocol):
    """Source of the schemas that a process parses by."""

    def list_known(self) -> Mapping[int, WriterSchema]:
        """Return all schemas that are known without the registry, by id."""

    def learn(self, ids: Collection[int]) -> None:
        """Make schemas known; raise `LogError` if the registry does not respond."""


class _Binding:
    """Source that this process is bound to."""

    source: SchemaSource | None = None


_BINDING = _Binding()


def bind_source(source: SchemaSource | None) -> None:
    """Bind the source by which this process parses; it replaces an earlier one."""
    _BINDING.source = source


def list_known() -> Mapping[int, WriterSchema]:
    """Return what values are decoded by without asking the registry, by number."""
    return _get_source().list_known()


def _get_source() -> SchemaSource:
    if _BINDING.source is None:
        msg = "Topic in Avro: expected the address of a schema registry, got none.\n"
        raise DefinitionError(msg + "Hint: set `registry.url` in `cutover.toml`, or `CUTOVER_REGISTRY__URL`.")
    return _BINDING.source


def find_schema(head: bytes) -> WriterSchema:
    """Return the schema of a value by its head, which is learned if it is not known."""
    number = parse_id(head)
    if number not in list_known():
        _get_source().learn([number])
    return list_known()[number]


def list_field_names(value: bytes) -> list[str]:
    """List the top-level fields of the schema of a value that can be read by it."""
    return [str(field["name"]) for field in find_schema(value[:HEAD_BYTES]).document["fields"]]


def parse_id(head: bytes) -> int:
    """Decode the number behind the zero byte."""
    return int.from_bytes(head[1:HEAD_BYTES], "big", signed=True)


def list_avro_topics(pipeline: Pipeline) -> list[Topic]:
    """List the topics of a pipeline whose values are Avro."""
    return [topic for topic in list_topics(pipeline) if topic.parse == "avro"]


def list_digests(pipeline: Pipeline) -> dict[str, str]:
    """Return the digest of each known schema by its id, as epochs and batch runs record it; empty without Avro."""
    if not list_avro_topics(pipeline):
        return {}
    return {str(number): schema.digest for number, schema in sorted(list_known().items())}


def learn_schemas(records: "DataFrame", topic: Topic) -> None:
    """Learn the schemas of all values of a topic in some records, by a pass over them.

    Args:
        records: `value binary`, and any other columns.
        topic: A topic in Avro.
    """
    is_value = (
        f"octet_length(value) BETWEEN {HEAD_BYTES} AND {topic.max_value_bytes} AND substring(value, 1, 1) = X'00'"
    )
    head = f"IF({is_value}, substring(value, 1, {HEAD_BYTES}), NULL)"
    ids = {parse_id(bytes(row[0])) for row in records.selectExpr(f"{head} AS head").distinct().collect() if row[0]}
    unknown = ids - set(list_known())
    if unknown:
        _get_source().learn(unknown)


def run_with_schemas(run: Callable[[], ResultT]) -> ResultT:
    """Run Spark jobs again, with more schemas, as long as they fail because of one that is not known."""
    while True:
        try:
            return run()
        except Exception as error:
            ids = {parse_id(bytes.fromhex(head)) for head in _MET.findall(str(error))}
            if not ids - set(list_known()):
                raise
            _get_source().learn(ids)
