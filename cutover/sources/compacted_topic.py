"""Compacted topic of Kafka as a table: the latest value of each key, up to the end offsets when the read begins.

A record without a value deletes the row of its key. Values are JSON objects, whose top-level fields are columns of
texts without a type, as cells of CSV; the message key is the column `_key`. The record with the key `cutover.position`
is no row: in it a batch job records up to where it has read. What compaction and deletions leave out changes no result,
unless records arrive meanwhile.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`, `literal` or our own

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
from confluent_kafka import Message
from pyarrow import parquet

from cutover.errors import DefinitionError, LakeError
from cutover.files import make_private_folder
from cutover.log.kafka import LogClient, Ranges
from cutover.log.topic_partitions import get_offset
from cutover.quoting import literal
from cutover.settings import Settings
from cutover.sources.addresses import TableAddress
from cutover.sources.reading import reject_like_names
from cutover.sources.staging import Fields, Selection, StagedRows, TextColumns, read_fields

KAFKA = "kafka"
KEY = "_key"
"""Column of the message key."""

POSITION_KEY = "cutover.position"
"""Message key of the record in which a batch job states its position."""

_POSITION_BYTES = POSITION_KEY.encode()
_ISOLATION = "read_committed"
_BATCH = 20_000
_TYPES: Mapping[str, pa.DataType] = {
    "key": pa.binary(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "value": pa.binary(),
}
_RECORDS = pa.schema(_TYPES)
_MAX_PARTITIONS_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionRecord:
    """Record in which a batch job has stated its position."""

    partition: int
    offset: int
    text: str | None  # of its value; None: it deletes the one before


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """Where the records of a compacted topic are that were read as its rows."""

    ends: Mapping[int, int]  # partition -> end offset at which it was read
    row_ends: Mapping[int, int]  # partition -> offset after its newest record of a row; deletions count
    positions: tuple[PositionRecord, ...]  # by partition and offset


@dataclass(frozen=True, slots=True, kw_only=True)
class _Records:
    """Copy of the records of a topic, and what they say."""

    path: Path
    shown: str  # address of the topic
    state: TopicState


def stage_topic_rows(
    connection: duckdb.DuckDBPyConnection,
    address: TableAddress,
    settings: Settings,
    selection: Selection,
    folder: Path,
) -> tuple[StagedRows, TopicState]:
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
    if selection.times is not None:
        msg = f"Table `{address.shown}`: column `{selection.times.column}`: expected a date or a timestamp to select "
        raise DefinitionError(msg + "rows by, got texts.\nHint: leave --from, --to and --min-age out.")
    records = _stage_records(address, settings, folder)
    try:
        rows = _stage_latest(connection, records, selection, folder)
    finally:
        records.path.unlink(missing_ok=True)
    ends = records.state.ends
    listed = ", ".join(f"{partition}: {end}" for partition, end in sorted(ends.items())[:_MAX_PARTITIONS_SHOWN])
    more = ", ..." if len(ends) > _MAX_PARTITIONS_SHOWN else ""
    return replace(rows, pinned=f"at end offsets {listed}{more}"), records.state


def read_topic_state(address: TableAddress, settings: Settings, folder: Path) -> TopicState:
    """Read where the records of a compacted topic are, without its rows.

    Raises:
        DefinitionError: The address names no topic.
        LakeError: The topic is not compacted, or a record has no key.
        LogError: No broker responds, or the topic does not exist.
    """
    records = _stage_records(address, settings, folder)
    records.path.unlink(missing_ok=True)
    return records.state


def read_topic_ends(address: TableAddress, settings: Settings) -> dict[int, int]:
    """Read the present end offsets of a topic, for readers of committed records.

    Raises:
        LogError: No broker responds, or the topic does not exist.
    """
    return _open_client(address, settings).latest(_get_topic(address), _ISOLATION)


def _get_topic(address: TableAddress) -> str:
    return address.path.strip("/")


def _open_client(address: TableAddress, settings: Settings) -> LogClient:
    topic = _get_topic(address)
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


def _stage_records(address: TableAddress, settings: Settings, folder: Path) -> _Records:
    """Copy the records of a topic up to its present end."""
    client, topic = _open_client(address, settings), _get_topic(address)
    topic_id = client.topic_id(topic)
    _check_compacted(client, address, topic)
    starts, ends = client.earliest(topic), client.latest(topic, _ISOLATION)
    ranges = {partition: (starts.get(partition, 0), end) for partition, end in ends.items()}
    path = make_private_folder(folder) / f"records_{uuid4().hex}.parquet"
    try:
        row_ends, positions = _write_records(client, address, topic, ranges, path)
        _check_same_topic(client, address, topic_id)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    state = TopicState(ends=ends, row_ends=row_ends, positions=tuple(sorted(positions, key=_locate_position)))
    return _Records(path=path, shown=address.shown, state=state)


def _check_same_topic(client: LogClient, address: TableAddress, topic_id: str) -> None:
    if client.topic_id(_get_topic(address)) != topic_id:
        msg = f"Table `{address.shown}`: expected one topic, it was deleted and created again while it was read."
        raise LakeError(msg, runbook="TableUnreadable")


def _locate_position(record: PositionRecord) -> tuple[int, int]:
    return record.partition, record.offset


def _write_records(
    client: LogClient, address: TableAddress, topic: str, ranges: Ranges, path: Path
) -> tuple[dict[int, int], list[PositionRecord]]:
    """Write the records of rows to a file; return the offsets after the newest ones, and the positions."""
    row_ends: dict[int, int] = {}
    positions: list[PositionRecord] = []
    # Keys and offsets differ in every row, and values in most: a dictionary of them is not worth its time.
    with parquet.ParquetWriter(path, _RECORDS, compression="snappy", use_dictionary=False) as writer:
        for messages in client.message_batches(topic, ranges, _ISOLATION):
            if any(message.key() in {None, _POSITION_BYTES} for message in messages):
                positions += _read_position_records(address, messages)
                messages = [message for message in messages if message.key() != _POSITION_BYTES]  # noqa: PLW2901 -- rows
            if not messages:
                continue
            row_ends |= {int(m.partition() or 0): get_offset(m) + 1 for m in messages}
            arrays: list[pa.Array[Any]] = [
                pa.array([message.key() for message in messages], pa.binary()),
                pa.array([message.partition() for message in messages], pa.int32()),
                pa.array([message.offset() for message in messages], pa.int64()),
                pa.array([message.value() for message in messages], pa.binary()),
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=_RECORDS))
    return row_ends, positions


def _read_position_records(address: TableAddress, messages: Sequence[Message]) -> Iterator[PositionRecord]:
    """Yield the records with a position.

    Raises:
        LakeError: A record has no key, or a position is no text.
    """
    for message in messages:
        key, partition, offset, value = (
            message.key(),
            int(message.partition() or 0),
            get_offset(message),
            message.value(),
        )
        if key is None:
            raise _make_record_error(address.shown, partition, offset, "a key", "none")
        if key == _POSITION_BYTES:
            try:
                text = None if value is None else value.decode("utf-8")
            except UnicodeDecodeError:
                actual = "bytes that are not UTF-8"
                raise _make_record_error(address.shown, partition, offset, "a position", actual) from None
            yield PositionRecord(partition=partition, offset=offset, text=text)


def _make_record_error(shown: str, partition: int, offset: int, expected: str, actual: str) -> LakeError:
    msg = f"Table `{shown}`, partition {partition}, offset {offset}: expected {expected}, got {actual}."
    return LakeError(msg, runbook="TableUnreadable")


def _stage_latest(
    connection: duckdb.DuckDBPyConnection, records: _Records, selection: Selection, folder: Path
) -> StagedRows:
    """Copy the rows as columns; they are not pinned yet."""
    nested: set[str] = set()
    with TextColumns(folder) as columns:
        for rows in _read_rows(_select_latest(connection, records), records.shown, selection, nested):
            try:
                columns.write(rows)
            except UnicodeEncodeError:
                msg = f"Table `{records.shown}`: expected texts of Unicode in its values, got half of a surrogate pair."
                raise LakeError(msg, runbook="TableUnreadable") from None
        columns.add(KEY)
        reject_like_names(records.shown, sorted(columns.names))
        names = [name for name in sorted(columns.names) if name not in selection.excluded]
        if not names:
            msg = f"Table `{records.shown}`: expected a column to read, got none."
            raise DefinitionError(msg)
        path = columns.merge(connection, names)
    return StagedRows(
        path=path,
        pinned="",
        untyped=frozenset(names) - nested,
        texts={name: "JSON" for name in names if name in nested},
        unread=tuple(sorted(columns.names - {*names})),
    )


def _select_latest(connection: duckdb.DuckDBPyConnection, records: _Records) -> duckdb.DuckDBPyRelation:
    """Return the rows of the latest record of each key that has a value, by partition and offset."""
    copy = f"read_parquet({literal(str(records.path))})"
    newest = f'SELECT key, "partition", max("offset") AS "offset" FROM {copy} GROUP BY ALL'
    latest = f'SELECT r.* FROM {copy} r SEMI JOIN ({newest}) USING ("partition", "offset") WHERE value IS NOT NULL'
    twice = f"SELECT key, min({{'p': \"partition\", 'o': \"offset\"}}) FROM ({latest}) GROUP BY key HAVING count(*) > 1"
    row = connection.execute(f"{twice} ORDER BY ALL LIMIT 1").fetchone()
    if row is not None:
        actual = "a value in another partition as well, of which neither is the later one"
        raise _make_record_error(records.shown, row[1]["p"], row[1]["o"], "a key in one partition", actual)
    return connection.sql(f'SELECT * FROM ({latest}) ORDER BY "partition", "offset"')


def _read_rows(
    records: duckdb.DuckDBPyRelation, shown: str, selection: Selection, nested: set[str]
) -> Iterator[list[Fields]]:
    """Yield the fields of rows in batches, and add the names of those that are objects or arrays to `nested`.

    Raises:
        LakeError: A value is no JSON object, has a text that is none, or a field that is called as the key's column.
    """
    for batch in records.to_arrow_reader(_BATCH):
        rows: list[Fields] = []
        values = _decode_texts(batch, "value", shown)
        keys = [None] * len(values) if KEY in selection.excluded else _decode_texts(batch, "key", shown)
        for place, (key, text) in enumerate(zip(keys, values, strict=True)):
            try:
                fields, nested_names = read_fields(text)
            except (ValueError, RecursionError) as error:
                raise _make_row_error(shown, batch, place, "a JSON object", str(error)) from None
            if KEY in fields:
                raise _make_row_error(shown, batch, place, f"no field `{KEY}`, the message key", "one")
            nested.update(nested_names)
            fields[KEY] = key
            rows.append(fields)
        yield rows


def _make_row_error(shown: str, batch: pa.RecordBatch, place: int, expected: str, actual: str) -> LakeError:
    row = batch.slice(place, 1).to_pylist()[0]
    return _make_record_error(shown, row["partition"], row["offset"], expected, actual)


def _decode_texts(batch: pa.RecordBatch, name: str, shown: str) -> list[Any]:
    """Return the texts in a column of bytes.

    Raises:
        LakeError: Bytes are not UTF-8.
    """
    try:
        return list(batch.column(name).cast(pa.string()).to_pylist())
    except pa.ArrowInvalid:
        pass
    for place, content in enumerate(batch.column(name).to_pylist()):
        try:
            str(content or b"", "utf-8")
        except UnicodeDecodeError:
            expected = "a JSON object" if name == "value" else f"a key in UTF-8 (`--exclude {KEY}` leaves it out)"
            raise _make_row_error(shown, batch, place, expected, "bytes that are not UTF-8") from None
    raise AssertionError(name)
