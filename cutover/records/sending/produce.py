"""Replay a file into a topic: in log-time order, with the log timestamps of the data, each record once.

A run notes which file it sends before its first record, and each message names its run and record in a header. So a run
that was interrupted is resumed from what the log holds, and a file that grew sends its new records alone.
"""

import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError, InterruptedRunError
from cutover.log.cut import LogId
from cutover.log.kafka import LogClient
from cutover.records.sending.delivered import find_delivered
from cutover.records.sending.produced import (
    NO_HISTORY,
    FileDifference,
    History,
    ProducedNotes,
    ProducedRun,
    file_sha256,
    lock_sending,
)
from cutover.records.sending.rows import ALL_TIMES, FileContent, LogTimeRange, find_line, read_rows
from cutover.records.sending.spool import Spool
from cutover.records.sending.topic import find_topic, prepare_topic
from cutover.records.sending.transmit import ProgressCallback, pace_rows, send_records
from cutover.settings import Settings

EXAMPLES = 10  # of malformed records in a summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to send."""

    file: Path
    log_times: LogTimeRange = ALL_TIMES
    speed: float | None = None  # how many times faster than the log times say; None: as fast as it goes
    partitions: int | None = None  # of a topic that is made; None: 4
    resend: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What was sent."""

    topic: str
    topic_id: str
    records: int
    already_sent: int  # records of the file, in the stretch asked for, that the topic held before
    seconds: float
    sha256: str
    ignored_columns: list[str]
    unfit_cells: int
    malformed: int  # records sent that both paths will call malformed; expressions are not evaluated
    malformed_reasons: Mapping[str, int]
    malformed_examples: list[str]
    differs: str | None  # from a file that was sent before and holds some of the same records


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Callbacks on how far it is; `on_total` is called once, when the number of records is known."""

    on_read: ProgressCallback
    on_total: ProgressCallback
    on_sent: ProgressCallback


def produce(settings: Settings, pipeline: Pipeline, request: Request, *, clock: Clock, progress: Progress) -> Summary:
    """Send those records of a file into the pipeline's topic that it does not hold yet.

    The whole file is read, and all of its records are checked, before the first one is sent.

    Raises:
        DefinitionError: The file, one of its lines or an argument cannot be used; all of it was sent before; it is an
            edited copy of a file that was sent; another process is sending it.
        LogError: The broker does not answer, or refuses a record.
        InterruptedRunError: Someone interrupted it; says what was sent.
    """
    if not request.file.is_file():
        msg = f"{request.file}: expected a CSV or JSON-lines file, found none."
        raise DefinitionError(msg)
    if pipeline.source.log_time is None and (request.log_times, request.speed) != (ALL_TIMES, None):
        msg = f"Pipeline `{pipeline.name}`: expected `log_time` in its topic for --from, --to and --speed, got none."
        raise DefinitionError(msg)
    client, topic = LogClient(settings), pipeline.source.name
    folder = settings.home.resolve() / "produced"
    folder.mkdir(parents=True, exist_ok=True)
    find_topic(client, topic, request.partitions)  # before a large file is read
    with tempfile.TemporaryDirectory(dir=folder) as scratch, Spool(Path(scratch)) as spool:
        content = FileContent()
        with explain_interrupt():
            spool.fill(read_rows(request.file, pipeline, content, request.log_times, progress.on_read))
        _reject_empty(request, spool.count)
        sending = FileTransfer(settings, topic, request, client, spool, content, clock, progress)
        with lock_sending(settings.home.resolve(), topic, content):
            return sending.send()


@contextmanager
def explain_interrupt() -> Iterator[None]:
    """Explain an interrupt of what comes before the first record.

    Raises:
        InterruptedRunError: There was one.
    """
    try:
        yield
    except KeyboardInterrupt:
        msg = "Interrupted before a record was sent; the same command starts again."
        raise InterruptedRunError(msg) from None


def _reject_empty(request: Request, count: int) -> None:
    """Reject a file without a record: what wrote it may have failed. A stretch of a file may be empty.

    Raises:
        DefinitionError: There is none.
    """
    if not count and request.log_times == ALL_TIMES:
        msg = f"{request.file}: expected at least one record, got none ({request.file.stat().st_size:,} bytes)."
        raise DefinitionError(msg + "\nHint: nothing was sent.")


@dataclass(frozen=True, slots=True)
class FileTransfer:
    """One run, once its file is read."""

    settings: Settings
    topic: str
    request: Request
    client: LogClient
    spool: Spool
    content: FileContent
    clock: Clock
    progress: Progress

    def send(self) -> Summary:
        """Send what the topic does not hold yet."""
        began, read = self.clock.monotonic(), self.spool.count
        with explain_interrupt():
            sha256 = file_sha256(self.request.file)
            existing = find_topic(self.client, self.topic, self.request.partitions)
            history, resumed = self._find_sent(existing, sha256)
            malformed = self.spool.summarize_malformed(EXAMPLES)
            target = prepare_topic(self.client, self.topic, self.request.partitions, existing, self.spool, self.clock)
        count = self.spool.count
        self.progress.on_total(count)
        if self.content.records:
            produced = ProducedNotes(self.settings.home.resolve(), target.log.topic_id)
            run = self._make_run(target.log, history, resumed, sha256)
            produced.record_start(run, self.content)
            rows = pace_rows(self.spool.read_sorted_rows(), self.request.speed, self.clock)
            send_records(self.settings, self.client, target, run.run, rows, self.progress.on_sent)
            produced.record_finished(_find_finished(run, history))
        return Summary(
            topic=target.log.topic,
            topic_id=target.log.topic_id,
            records=count,
            already_sent=read - count,
            seconds=round(self.clock.monotonic() - began, 3),
            sha256=sha256,
            ignored_columns=self.content.ignored_columns,
            unfit_cells=malformed.cells,
            malformed=malformed.records,
            malformed_reasons=malformed.reasons,
            malformed_examples=list(malformed.examples),
            differs=None if history.difference is None else self._describe_difference(history.difference),
        )

    def _find_sent(self, log: LogId | None, sha256: str) -> tuple[History, ProducedRun | None]:
        """Return what is known of the file, and the run that is resumed; leave out what the topic holds."""
        if log is None:
            return NO_HISTORY, None
        history = ProducedNotes(self.settings.home.resolve(), log.topic_id).find_history(self.content, sha256)
        if self.request.resend:
            return history, None
        self._reject_edited_copy(history.difference)
        return history, self._drop_sent(log, history.runs)

    def _reject_edited_copy(self, difference: FileDifference | None) -> None:
        if difference is not None and difference.is_edited_copy:
            msg = (
                f"{self._describe_difference(difference)}\nHint: nothing was sent; `--again` sends all of its records."
            )
            raise DefinitionError(msg)

    def _describe_difference(self, difference: FileDifference) -> str:
        run = difference.run
        line = find_line(self.request.file, difference.record)
        name = "the file" if run.file == self.request.file.name else f"`{run.file}`"
        return (
            f"{self.request.file}: differs from line {line} on from {name} that was sent to topic `{self.topic}` at "
            f"{run.at}, which held {difference.common:,} of its {self.content.records:,} records."
        )

    def _drop_sent(self, log: LogId, runs: tuple[ProducedRun, ...]) -> ProducedRun | None:
        """Leave out what the topic holds, and return the interrupted run that is resumed; None: there is none.

        Raises:
            DefinitionError: All was sent.
            LogError: What an interrupted run sent cannot be known.
        """
        read = self.spool.count
        interrupted = [run for run in runs if not run.finished]
        delivered = find_delivered(self.client, log, [run for run in interrupted if run.run])
        resumed = self._find_resumed(interrupted)
        is_repeat = resumed is not None and resumed.again  # which sends what others have sent
        for run in runs:
            if run.finished:
                first_record = resumed.read if resumed is not None and is_repeat else 0
                self.spool.drop_stretch(first_record, run.read or self.content.records, run.log_times)
            elif run is resumed or not (run.again or is_repeat):
                self.spool.drop_numbers(delivered.get(run.run, set()))
        is_sent = read and resumed is None and not self.spool.count
        if runs and (is_sent or any(not run.run for run in interrupted)):
            raise self._make_repeat_error(runs)
        return resumed

    def _find_resumed(self, interrupted: list[ProducedRun]) -> ProducedRun | None:
        """Return the latest interrupted run over the same stretch; none of a file that has become shorter since."""
        resumable = (run for run in reversed(interrupted) if run.run and run.log_times == self.request.log_times)
        return next((run for run in resumable if run.read <= self.content.records), None)

    def _make_repeat_error(self, runs: tuple[ProducedRun, ...]) -> DefinitionError:
        complete_runs = [run for run in runs if run.finished and run.log_times == ALL_TIMES and self._covers_file(run)]
        run = complete_runs[-1] if complete_runs else runs[-1]
        sent_by = (
            "the file was sent" if complete_runs or len(runs) == 1 else f"{len(runs)} runs have sent them, the latest"
        )
        name = f" as `{run.file}`" if run.file != self.request.file.name else ""
        part = "" if run.finished else " in part; that run was interrupted, and how much it sent was not noted"
        msg = (
            f"{self.request.file}: expected records that topic `{self.topic}` does not hold yet, but {sent_by} "
            f"at {run.at}{name}{part}."
        )
        return DefinitionError(
            f"{msg}\nHint: nothing was sent; `--again` sends it once more, each record a second time."
        )

    def _covers_file(self, run: ProducedRun) -> bool:
        return not run.read or run.read >= self.content.records

    def _make_run(self, log: LogId, history: History, resumed: ProducedRun | None, sha256: str) -> ProducedRun:
        if resumed is None:
            run, resend = secrets.token_hex(8), self.request.resend
            offsets = {str(p): end for p, end in self.client.high_watermarks(log.topic).items()}
        else:
            run, resend, offsets = resumed.run, resumed.again, dict(resumed.offsets)
        return ProducedRun(
            sha256=sha256,
            file=self.request.file.name,
            start=self.request.log_times.start,
            end=self.request.log_times.end,
            records=self.spool.count,
            at=self.clock.now().isoformat(timespec="microseconds"),
            finished=False,
            run=run,
            content=history.content or secrets.token_hex(8),
            read=self.content.records,
            again=resend,
            offsets=offsets,
        )


def _find_finished(run: ProducedRun, history: History) -> set[str]:
    """Return the runs whose records are all there now: this one, and interrupted ones that it has completed."""
    completed = (
        other
        for other in history.runs
        if not (run.again or other.again) and other.log_times == run.log_times and other.read <= run.read
    )
    return {run.run, *(other.run for other in completed)}
