"""Epoch log opened at one version, from which all facts are read.

The driver retains the files of an old version for hours, longer than a run takes, so no pin is needed.
"""

from dataclasses import dataclass
from datetime import datetime

import duckdb

from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake.control import losses, versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.integrity import high_water, table_weights
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import COUNTED, kind_sql
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution import attribution
from cutover.reconcile.preconditions import damage
from cutover.reconcile.verify.facts.facts import VerifyFacts

ROWS = "stream_log"
ALL_ROWS = "rows_all"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """Options of a run of the checks."""

    now: datetime  # decides which pins are in force
    seed: int = 0
    exhaustive: bool = False  # recompute and count all retained epochs, not a sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Open epoch log: view `stream_log` has its rows without epoch records; `ledger` and `doubtful` derive from it."""

    lake: PipelineLake
    version: Version
    log: EpochLog
    connection: duckdb.DuckDBPyConnection
    request: VerifyRequest


def open_source(lake: PipelineLake, request: VerifyRequest) -> tuple[Source, VerifyFacts]:
    """Open a pipeline's current version and read the facts of its epoch records.

    Raises:
        LakeError: There is no current version, or one of its files is missing or cannot be read.
    """
    version = table_weights.check_epoch_log(lake, versions.find_current_version(lake))
    # Before the log is opened, as its driver continues to commit.
    witnesses = high_water.list_witnesses(lake, version)
    log = EpochLog(version.uri)
    _reject_missing_files(log)
    connection = queries.open_duckdb(queries.make_reader_limits(lake.settings))
    source = Source(lake=lake, version=version, log=log, connection=connection, request=request)
    try:
        records = tuple(log.records())
        delta.bind(connection, ALL_ROWS, log.table)
        connection.execute(f"CREATE TEMP VIEW {ROWS} AS SELECT * FROM {ALL_ROWS} WHERE {kind_sql(*COUNTED)}")  # noqa: S608 -- ours
        attribution.create_ledger_tables(connection, lake.pipeline, records)
    except duckdb.Error as error:
        raise explain_unreadable(log, error) from error
    facts = VerifyFacts(
        stream=version.app_id,
        pipeline=lake.pipeline,
        records=records,
        transaction=log.transaction(version.app_id),
        witnesses=witnesses,
        losses=losses.list_of_version(lake.settings, version),
        table_version=log.version,
    )
    return source, facts


def explain_unreadable(log: EpochLog, error: duckdb.Error) -> LakeError | duckdb.Error:
    """Return the damage that made a query fail; the query's error if every file can be read."""
    breach = damage.find_damaged_file((log.table,))
    return error if breach is None else LakeError(breach.message, runbook=breach.runbook)


def _reject_missing_files(log: EpochLog) -> None:
    breach = damage.find_missing_file((log.table,))
    if breach is not None:
        raise LakeError(breach.message, runbook=breach.runbook)
