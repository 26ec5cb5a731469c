"""An epoch log opened at one version: every fact comes from it.

Files of that version outlive a run by the hours that the driver keeps them, so nothing has to be pinned.
"""

from dataclasses import dataclass
from datetime import datetime

import duckdb

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake.control import losses, versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.epochs.row_kinds import COUNTED, kind_sql
from cutover.lake.integrity import high_water, table_weights
from cutover.lake.tables import delta
from cutover.reconcile.attribution import ledger
from cutover.reconcile.preconditions import damage
from cutover.reconcile.verify.facts.facts import VerifyFacts
from cutover.settings import Settings

ROWS = "stream_log"
ALL_ROWS = "rows_all"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """What a run is asked for."""

    now: datetime  # for what is pinned
    seed: int = 0
    every: bool = False  # recompute and count all there is, not a sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An open epoch log: `stream_log` holds all its rows but the epochs' own, `ledger` and `doubtful` come of it."""

    settings: Settings
    pipeline: Pipeline
    version: Version
    log: EpochLog
    connection: duckdb.DuckDBPyConnection
    asked: VerifyRequest


def open_source(settings: Settings, pipeline: Pipeline, verify_request: VerifyRequest) -> tuple[Source, VerifyFacts]:
    """Open a pipeline's current version and return the facts that its epochs' rows tell.

    Raises:
        LakeError: There is none, or a file of it is not there or cannot be read.
    """
    version = table_weights.check_epoch_log(settings, pipeline, versions.current(settings, pipeline))
    witnesses = high_water.list_witnesses(settings, pipeline, version)  # before the log is opened: its driver goes on
    log = EpochLog(version.uri)
    _refuse_missing(log)
    connection = queries.connect(queries.reading(settings))
    source = Source(
        settings=settings, pipeline=pipeline, version=version, log=log, connection=connection, asked=verify_request
    )
    try:
        records = tuple(log.records())
        delta.bind(connection, ALL_ROWS, log.table)
        connection.execute(f"CREATE TEMP VIEW {ROWS} AS SELECT * FROM {ALL_ROWS} WHERE {kind_sql(*COUNTED)}")  # noqa: S608 -- ours
        ledger.make_tables(connection, pipeline, records)
    except duckdb.Error as error:
        raise explain_unreadable(log, error) from error
    facts = VerifyFacts(
        stream=version.app_id,
        pipeline=pipeline,
        records=records,
        transaction=log.transaction(version.app_id),
        seen=witnesses,
        losses=losses.losses(settings, version),
        table_version=log.version,
    )
    return source, facts


def explain_unreadable(log: EpochLog, error: duckdb.Error) -> LakeError | duckdb.Error:
    """Return the damage behind a failed query; the failure itself if every file can be read."""
    breach = damage.find_damage((log.table,))
    return error if breach is None else LakeError(breach.message, runbook=breach.runbook)


def _refuse_missing(log: EpochLog) -> None:
    breach = damage.find_missing((log.table,))
    if breach is not None:
        raise LakeError(breach.message, runbook=breach.runbook)
