"""Batch job of a team: where its table is, which columns it has, and whether it has the rows of a definition."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from cutover.adoption.draft import Choose, JobDraft, Question
from cutover.adoption.hypotheses import DraftCheck, verify
from cutover.adoption.search import find_local_windows
from cutover.adoption.trial import JobReading, evaluate_draft
from cutover.counts import count_noun
from cutover.definition.model.batch_job import BatchJob, Iceberg, JobTableKind, Parquet, Postgres
from cutover.definition.model.pipeline import WINDOW_START, Delta
from cutover.engine import queries
from cutover.errors import DefinitionError
from cutover.lake.tables import delta
from cutover.positions.batch_table import bind_job_table
from cutover.positions.position import Position, UnknownPosition
from cutover.quoting import identifier
from cutover.sources.addresses import ICEBERG, mask_source, parse_table_address
from cutover.sources.binding import open_binder, types_of
from cutover.timestamps import drop_zone, shorten_duration

_VIEW = "adopted_batch_job"
_MAX_STARTS = 10_000
_REFERENCE = re.compile(r"env:(\w+)#(.+)")
_NUMBERS = re.compile(r"(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedBatchJob:
    """Batch job of a definition, and how far its table was tested."""

    job: BatchJob
    check: DraftCheck | None  # None: not tested
    obstacle: str | None  # why it was not tested

    def render(self) -> str:
        """Render the value of `batch` in a definition."""
        columns = f", columns={json.dumps(dict(self.job.columns))}" if self.job.columns else ""
        match self.job.table:
            case Postgres(table=table, server=server):
                kind = f"Postgres(table={json.dumps(table)}, server={json.dumps(server)})"
            case Iceberg(table=place) | Delta(path=place) | Parquet(path=place):
                kind = f"{type(self.job.table).__name__}({json.dumps(place)})"
        return f"BatchJob(table={kind}{columns})"

    def describe(self) -> str:
        """Describe how far the table of the batch job was tested."""
        if self.check is None:
            return f"Batch table: not tested; {self.obstacle}."
        cells = f"{self.check.equal_cells:,} of {count_noun(self.check.cells, 'cell')}"
        how_many = "all" if self.check.is_exact else "only"
        return f"Batch table: the definition reproduces {how_many} {cells} at its position."


def find_job_table_kind(place: str) -> JobTableKind:
    """Find what kind of table a place is: an absolute path, `iceberg://...` or `env:NAME#schema.table`.

    Raises:
        DefinitionError: It is an address with which a definition would contain a password.
    """
    reference = _REFERENCE.fullmatch(place)
    if reference is not None:
        return Postgres(table=reference[2], server=reference[1])
    address = parse_table_address(place)
    if address is not None and address.scheme == ICEBERG:
        return Iceberg(place)
    if address is not None:
        msg = f"--batch: expected a folder, `iceberg://...` or `env:NAME#schema.table`, got `{mask_source(place)}`."
        raise DefinitionError(msg + "\nHint: `export NAME=postgresql://user:password@host/database`: no password here.")
    if delta.exists(place):
        return Delta(place)
    return Iceberg(place) if list(Path(place).glob("metadata/*.metadata.json")) else Parquet(place)


def adopt_batch_job(
    connection: duckdb.DuckDBPyConnection, place: str, draft: JobDraft, reading: JobReading | str, choose: Choose
) -> AdoptedBatchJob:
    """Find the columns of a batch job's table, and compare it with the definition at the position that it has recorded.

    Args:
        connection: For its rows.
        place: Of the table.
        draft: The complete definition.
        reading: Records that were read for the streaming job; or why none were.
        choose: Asks which column is meant.

    Raises:
        DefinitionError: A column is missing, or the table cannot be compared by windows.
        LakeError: It cannot be read.
    """
    if draft.window.merges:
        msg = "--batch: expected fixed or sliding windows, by whose start alone a row of the batch table is assigned, "
        raise DefinitionError(msg + "the streaming job has sessions.\nHint: adopt it without `--batch`.")
    if draft.row_per_record:
        msg = "--batch: expected a streaming job with a row per window and key, by which the batch table is compared."
        raise DefinitionError(msg + "\nHint: `cutover diff` compares two tables with a row per record.")
    job = BatchJob(table=find_job_table_kind(place))
    with open_binder(connection, None) as binder, bind_job_table(binder, _VIEW, job) as bound:
        if isinstance(bound, UnknownPosition):
            untyped: frozenset[str] = binder.bind(_VIEW, place).untyped
        else:
            untyped = bound.untyped
        names = dict(_map_columns(connection, draft, place, choose))
        renamed = {name: column for name, column in names.items() if column not in {name, "window.start"}}
        job = replace(job, columns=renamed)
        if isinstance(reading, str):
            return AdoptedBatchJob(job=job, check=None, obstacle=reading)
        obstacle = bound.reason if isinstance(bound, UnknownPosition) else _find_gap(bound.position, draft, reading)
        if obstacle is not None or isinstance(bound, UnknownPosition):
            return AdoptedBatchJob(job=job, check=None, obstacle=obstacle)
        rows = list(_read_rows(connection, list(names.values()), untyped))
        ends = bound.position.topics[draft.topic]
    records = [[r for r in batch if r.offset < ends.get(r.partition, 0)] for batch in reading.records]
    batch_draft, batch_reading = _make_batch_draft(draft, names), replace(reading, records=records, rows=rows)
    check = verify(batch_draft, batch_reading)
    if not rows:
        return AdoptedBatchJob(job=job, check=None, obstacle="it has no rows at its position")
    if not check.is_exact:
        _check_zone(batch_draft, batch_reading, place)
    if check.has_other_rows:
        columns = ", ".join(f"`{name}` in `{column}`" for name, column in list(names.items())[: len(draft.key) + 1])
        msg = f"--batch `{mask_source(place)}`: expected rows with the windows and keys of the definition ({columns}), "
        hint = "\nHint: the job groups by something else, or another of its columns has the key."
        msg += f"{check.describe_other_rows()}.{hint}"
        raise DefinitionError(msg)
    return AdoptedBatchJob(job=job, check=check, obstacle=None)


def _check_zone(draft: JobDraft, reading: JobReading, place: str) -> None:
    """Reject a table whose windows are others than those of the streaming job, such as days of a zone.

    Raises:
        DefinitionError: They reproduce every cell of the table.
    """
    trial = evaluate_draft(draft, tuple(dict.fromkeys(draft.measures.values())), reading)
    windows = find_local_windows([trial], lambda _: [trial], reading, is_filtered=True)
    if windows is not None and windows.is_exact:
        expected = f"expected the windows of the streaming job ({shorten_duration(draft.window.reach or 0)} in UTC)"
        msg = f"--batch `{mask_source(place)}`: {expected}, those of the table are {windows.describe()}, which "
        msg += f"reproduce {windows.describe_cells()}.\nHint: a definition has one window for both jobs, and no zone: "
        raise DefinitionError(msg + "adopt the streaming job without `--batch`.")


def _find_gap(position: Position, draft: JobDraft, reading: JobReading) -> str | None:
    """Find why a table cannot be tested with the records that were read."""
    read_to = reading.plan.batches[-1].ends
    if set(position.topics) != {draft.topic}:
        return f"its position is one of {', '.join(sorted(position.topics))}, expected `{draft.topic}`"
    if position.upto is not None:
        return "its position is bounded; `cutover reconcile` judges the rows that it can"
    if any(end > read_to.get(partition, 0) for partition, end in position.topics[draft.topic].items()):
        return "it has read beyond the newest batch of the streaming job; `cutover reconcile` compares it"
    return None


def _map_columns(
    connection: duckdb.DuckDBPyConnection, draft: JobDraft, place: str, choose: Choose
) -> Iterator[tuple[str, str]]:
    """Yield each name of the definition with the column of the table that has it."""
    used, types = set[str](), types_of(connection, _VIEW)
    wanted: list[tuple[str, tuple[str, ...], Sequence[str]]] = [
        (WINDOW_START, (WINDOW_START, draft.start_column), [c for c, kind in types.items() if _is_time(kind)]),
        *((part.field, (part.field, part.column), [c for c, k in types.items() if _is_key(k)]) for part in draft.key),
        *((draft.name_measure(column), (column, draft.name_measure(column)), list(types)) for column in draft.measures),
    ]
    own = {known.lower() for _, names, _ in wanted for known in names}  # a column with such a name is another one's
    for name, names, candidates in wanted:
        others = own - {known.lower() for known in names}
        free = [column for column in candidates if column not in used and column.lower() not in others]
        named = next((c for c in free if c.lower() in {known.lower() for known in names}), None)
        if name in draft.make_measures():
            # PostgreSQL's numeric without a precision is a text here.
            free = [c for c in free if _NUMBERS.fullmatch(types[c]) or types[c] == "VARCHAR"] or free
        if named is None and name == WINDOW_START and types.get("window", "").startswith("STRUCT"):
            named = "window.start"
        elif named is None and name == WINDOW_START:
            free = _find_starts(connection, free, draft)
        if named is None and not free:
            msg = f"--batch `{mask_source(place)}`: expected a column for `{name}`, it has {', '.join(types)}."
            raise DefinitionError(msg)
        question = Question(
            option=f'columns={{"{name}": ...}}` in the definition, without `--batch',
            part=f"the column of the batch table with `{name}`",
            choices=tuple(free),
            reason="no column has this name",
        )
        column = named or (free[0] if name == WINDOW_START and len(free) == 1 else choose(question))
        used.add(column)
        yield name, column


def _find_starts(connection: duckdb.DuckDBPyConnection, columns: list[str], draft: JobDraft) -> list[str]:
    """Find the columns whose values are starts of the definition's windows, all of them if none is.

    Of several, a start determines the others, such as the day of an hour, and is before the end that it determines.
    """
    micros = {column: f"epoch_us({identifier(column)}::TIMESTAMP)" for column in columns}

    def fetch(expression: str) -> int:
        return queries.fetch_number(connection, f"SELECT {expression} FROM {_VIEW}")  # noqa: S608 -- quoted

    def is_start(column: str) -> bool:
        query = f"SELECT DISTINCT {micros[column]} FROM {_VIEW} LIMIT {_MAX_STARTS}"  # noqa: S608 -- quoted
        values = [row[0] for row in connection.execute(query).fetchall() if row[0] is not None]
        windows = ({window.start for window in draft.window.assign_windows(value)} for value in values)
        return bool(values) and all(value in starts for value, starts in zip(values, windows, strict=True))

    def determines(column: str, other: str) -> bool:
        pair = f"count(DISTINCT {micros[column]}) - count(DISTINCT ({micros[column]}, {micros[other]}))"
        return fetch(pair) == 0

    starts = [column for column in columns if is_start(column)]
    finest = [column for column in starts if all(determines(column, other) for other in starts)]
    first = [c for c in finest if all(fetch(f"coalesce(min({micros[o]} - {micros[c]}), 0)") >= 0 for o in finest)]
    return first or finest or starts or columns


def _is_time(kind: str) -> bool:
    return kind.startswith("TIMESTAMP") or kind == "DATE"


def _is_key(kind: str) -> bool:
    return not (_is_time(kind) or kind in {"DOUBLE", "FLOAT"} or kind.startswith(("DECIMAL", "STRUCT")))


def _read_rows(
    connection: duckdb.DuckDBPyConnection, columns: Sequence[str], untyped: frozenset[str]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the view; times are in UTC, without a zone."""
    selected = ", ".join(f"{'.'.join(map(identifier, name.split('.')))} AS {identifier(name)}" for name in columns)
    for row in queries.query_table(connection, f"SELECT {selected} FROM {_VIEW}").to_pylist():  # noqa: S608 -- quoted
        yield {
            name: Decimal(value) if name in untyped and value is not None else drop_zone(value)
            for name, value in row.items()
        }


def _make_batch_draft(draft: JobDraft, names: Mapping[str, str]) -> JobDraft:
    """Make the definition as the batch job computes it: without late records, and with the columns of its table."""
    return replace(
        draft,
        start_column=names[WINDOW_START],
        key=tuple(replace(part, column=names[part.field]) for part in draft.key),
        measures={names[draft.name_measure(column)]: choice for column, choice in draft.measures.items()},
        value_columns={names[draft.name_measure(column)]: draft.value_columns[column] for column in draft.measures},
        output_mode="complete",
        latest_by=None,
    )
