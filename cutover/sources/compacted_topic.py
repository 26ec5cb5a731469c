"""Compacted topic of Kafka as a table: the latest value of each key, up to the end offsets when the read begins.

A record without a value deletes the row of its key. Values are JSON objects, whose top-level fields are columns of
texts without a type, as cells of CSV; the message key is the column `_key`. What compaction and deletions leave out
changes no result, so the table at some end offsets is the same whenever it is read.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`, `literal` or our own

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from cutover.errors import CutoverError, DefinitionError, LakeError
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import get_offset
from cutover.quoting import identifier, literal
from cutover.records.parsing.parsed_record import JsonObject
from cutover.records.reference.parse import parse_object
from cutover.records.sending.rows import encode_parsed_json
from cutover.settings import Settings
from cutover.sources.addresses import TableAddress
from cutover.sources.reading import reject_like_names
from cutover.sources.selection import Selection
from cutover.sources.staging import StagedRows, stage_batches

KAFKA = "kafka"
KEY = "_key"
"""Column of the message key."""

_ISOLATION = "read_committed"
_BATCH = 20_000
_KINDS: Mapping[str, pa.DataType] = {
    "key": pa.binary(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "value": pa.binary(),
}
_RECORDS = pa.schema(_KINDS)
_MAX_PARTITIONS_SHOWN = 8


def stage_topic_rows(
    connection: duckdb.DuckDBPyConnection,
    address: TableAddress,
    settings: Settings,
    selection: Selection,
    folder: Path,
) -> StagedRows:
    """Copy the rows of a compacted topic.

    Args:
        connection: Where the latest values are selected.
        address: `kafka://broker:9092/topic`, or `kafka:///topic` in the cluster of the settings.
        settings: The cluster, and how to log in.
        selection: Columns that are read.
        folder: Of the copies.

    Raises:
        DefinitionError: The address names no topic, or rows are selected by times.
        LakeError: The topic is not compacted, a record has no key, a value is no JSON object, or a key has values in
            two partitions, of which neither is the later one.
        LogError: No broker responds, or the topic does not exist.
    """
    client, topic = _open_client(address, settings), address.path.strip("/")
    if selection.times is not None:
        msg = f"Table `{address.shown}`: column `{selection.times.column}`: expected a date or a timestamp to select "
        raise DefinitionError(msg + "rows by, got texts.\nHint: leave --from, --to and --min-age out.")
    identity = client.topic_id(topic)
    _check_compacted(client, address, topic)
    starts, ends = client.earliest(topic), client.latest(topic, _ISOLATION)
    ranges = {partition: (starts.get(partition, 0), end) for partition, end in ends.items()}
    batches = _make_batches(_read_records(client, address, topic, ranges), _RECORDS)
    records = _stage(connection, batches, _RECORDS, {name: name for name in _RECORDS.names}, folder)
    try:
        rows = _stage_latest(connection, address, records, selection, folder)
    finally:
        records.unlink(missing_ok=True)
    if client.topic_id(topic) != identity:
        msg = f"Table `{address.shown}`: expected one topic, it was deleted and created again while it was read."
        raise LakeError(msg, runbook="TableUnreadable")
    listed = ", ".join(f"{partition}: {end}" for partition, end in sorted(ends.items())[:_MAX_PARTITIONS_SHOWN])
    more = ", ..." if len(ends) > _MAX_PARTITIONS_SHOWN else ""
    return replace(rows, pinned=f"at end offsets {listed}{more}")


def _open_client(address: TableAddress, settings: Settings) -> LogClient:
    topic = address.path.strip("/")
    if not topic or "/" in topic or address.table or address.secrets:
        msg = f"Table `{address.shown}`: expected `kafka://broker:9092/topic`, or `kafka:///topic` in the cluster of "
        hint = "\nHint: `kafka.*` in `cutover.toml` has the login, also for another broker."
        raise DefinitionError(msg + "the settings." + hint)
    if address.host:
        kafka = settings.kafka.model_copy(update={"bootstrap_servers": address.host})
        settings = settings.model_copy(update={"kafka": kafka})
    return LogClient(settings)


def _check_compacted(client: LogClient, address: TableAddress, topic: str) -> None:
    policy = client.config(topic).get("cleanup.policy", "")
    if policy != "compact":
        why = "retention removes its rows" if "compact" in policy else "a topic of events is no table"
        msg = f"Table `{address.shown}`: expected a topic with `cleanup.policy=compact`, got `{policy}`: {why}."
        raise LakeError(msg + "\nHint: a job that folds it can write its rows to a table.", runbook="TableUnreadable")


def _read_records(
    client: LogClient, address: TableAddress, topic: str, ranges: Mapping[int, tuple[int, int]]
) -> Iterator[tuple[bytes, int, int, bytes | None]]:
    for message in client.messages(topic, ranges, _ISOLATION):
        key, partition, offset = message.key(), int(message.partition() or 0), get_offset(message)
        if key is None:
            raise _make_record_error(address, partition, offset, "a key", "none")
        yield key if isinstance(key, bytes) else key.encode(), partition, offset, message.value()


def _make_record_error(address: TableAddress, partition: int, offset: int, expected: str, actual: str) -> LakeError:
    msg = f"Table `{address.shown}`, partition {partition}, offset {offset}: expected {expected}, got {actual}."
    return LakeError(msg, runbook="TableUnreadable")


def _stage_latest(
    connection: duckdb.DuckDBPyConnection, address: TableAddress, records: Path, selection: Selection, folder: Path
) -> StagedRows:
    """Copy the rows as columns; they are not pinned yet."""
    latest = f"""
        SELECT key, "partition", max("offset") AS "offset", arg_max(struct_pack(v := value), "offset").v AS value
        FROM read_parquet({literal(str(records))}) GROUP BY ALL HAVING value IS NOT NULL"""
    twice = f"SELECT key, min({{'p': \"partition\", 'o': \"offset\"}}) FROM ({latest}) GROUP BY key HAVING count(*) > 1"
    row = connection.execute(f"{twice} ORDER BY ALL LIMIT 1").fetchone()
    if row is not None:
        actual = "a value in another partition as well, of which neither is the later one"
        raise _make_record_error(address, row[1]["p"], row[1]["o"], "a key in one partition", actual)
    query = f'SELECT key, "partition", "offset", value FROM ({latest}) ORDER BY "partition", "offset"'
    nested = {KEY: False}  # column -> whether a value is an object or an array
    for row_fields in _read_rows(connection, query, address):
        for name, member in row_fields.items():
            nested[name] = nested.get(name, False) or isinstance(member, JsonObject | list)
    reject_like_names(address.shown, nested)
    names = [name for name in sorted(nested) if name not in selection.excluded]
    if not names:
        msg = f"Table `{address.shown}`: expected a column to read, got none."
        raise DefinitionError(msg)
    schema = pa.schema({f"c{place}": pa.string() for place in range(len(names))})
    rows = _read_rows(connection, query, address)
    texts = ([_format_member(fields.get(name)) for name in names] for fields in rows)
    columns = {name: f"c{place}" for place, name in enumerate(names)}
    path = _stage(connection, _make_batches(texts, schema), schema, columns, folder)
    return StagedRows(
        path=path,
        pinned="",
        untyped=frozenset(name for name in names if not nested[name]),
        texts={name: "JSON" for name in names if nested[name]},
        unread=tuple(sorted(nested.keys() - set(names))),
    )


def _stage(
    connection: duckdb.DuckDBPyConnection,
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    columns: Mapping[str, str],
    folder: Path,
) -> Path:
    """Copy batches to a file; of an error, the engine would keep the text alone."""
    errors: list[CutoverError] = []

    def read_batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except CutoverError as error:
            errors.append(error)

    reader = pa.RecordBatchReader.from_batches(schema, read_batches())
    path = stage_batches(connection, reader, {name: identifier(column) for name, column in columns.items()}, folder)
    if errors:
        path.unlink(missing_ok=True)
        raise errors[0]
    return path


def _read_rows(connection: duckdb.DuckDBPyConnection, query: str, address: TableAddress) -> Iterator[dict[str, Any]]:
    """Yield the fields of each row."""
    cursor = connection.cursor()
    cursor.execute(query)
    while chunk := cursor.fetchmany(_BATCH):
        for key, partition, offset, value in chunk:
            try:
                document, text = parse_object(bytes(value).decode("utf-8")), bytes(key).decode("utf-8")
            except (ValueError, RecursionError) as error:
                actual = "bytes that are not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
                raise _make_record_error(address, partition, offset, "a JSON object", actual) from None
            fields = dict(document.members)
            if KEY in fields:
                raise _make_record_error(address, partition, offset, f"no field `{KEY}`, the message key", "one")
            yield {KEY: text, **fields}


def _format_member(member: Any) -> str | None:
    return member if member is None or isinstance(member, str) else encode_parsed_json(member)


def _make_batches(rows: Iterable[Sequence[Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows in batches, the last of which may be empty."""
    remaining = iter(rows)
    while True:
        chunk = list(islice(remaining, _BATCH))
        columns = list(zip(*chunk, strict=True)) if chunk else [()] * len(schema)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        if len(chunk) < _BATCH:
            return
