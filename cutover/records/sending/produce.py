"""Replay of a file into a topic: in log-time order, with the log timestamps of the data, each record once.

Before its first record a run notes which file it sends, and a header of each message contains its run and record
number. So an interrupted run is resumed from the state of the log, and for a file that grew only new records are sent.
"""

import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cutover.clock import Clock
from cutover.counts import count_noun
from cutover.definition.checks.json_fields import find_whole_form
from cutover.errors import DefinitionError, InterruptedRunError
from cutover.log.cut import LogId
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
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
from cutover.records.sending.spool import MalformedSummary, Spool
from cutover.records.sending.transmit import (
    RUN_CHARACTERS,
    ProgressCallback,
    find_delivered,
    find_topic,
    pace_rows,
    prepare_topic,
    send_records,
)
from cutover.settings import Settings

EXAMPLES = 10  # of malformed records in a summary
FEW_RECORDS = 10
"""Fewer new records of a file that has grown are sent although all of them are malformed."""

FIRST_RECORDS = 1_000
"""So many first records, or all of a shorter file, are not sent without a confirmation if each would be malformed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Request to send a file."""

    file: Path
    log_times: LogTimeRange = ALL_TIMES
    speed: float | None = None  # replay speed relative to the log times; None: as fast as possible
    partitions: int | None = None  # of a topic that is created; None: 4
    resend: bool = False
    confirm: bool = False  # send records of which the first ones are all malformed


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Result of sending a file."""

    topic: str
    topic_id: str
    records: int
    already_sent: int  # records of the file, in the requested time range, that were in the topic before
    seconds: float
    sha256: str
    ignored_columns: list[str]
    unfit_cells: int
    malformed: int  # sent records that both paths will classify as malformed; expressions are not evaluated
    malformed_reasons: Mapping[str, int]
    malformed_examples: list[str]
    differs: str | None  # how the file differs from one that was sent before and has some of the same records


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress callbacks; `on_total` is called once, when the number of records is known."""

    on_read: ProgressCallback
    on_total: ProgressCallback
    on_sent: ProgressCallback


def produce(lake: PipelineLake, request: Request, *, clock: Clock, progress: Progress) -> Summary:
    """Send the records of a file that are not in the pipeline's topic yet.

    The whole file is read and all of its records are validated before the first one is sent.

    Raises:
        DefinitionError: The file, one of its lines or an argument is invalid; all of its records were sent before; it
            is an edited copy of a file that was sent; its first records would all be malformed; or another process is
            sending it.
        LogError: The broker does not respond, or rejects a record.
        InterruptedRunError: The user interrupted the run; the message states how many records were sent.
    """
    settings, pipeline = lake.settings, lake.pipeline
    other_form = find_whole_form(pipeline.source)
    if other_form is not None:
        msg = f"Pipeline `{pipeline.name}`: expected a topic of JSON objects, "
        msg += f"`{pipeline.source.name}` has {other_form}.\nHint: `produce` sends JSON alone; nothing was sent."
        raise DefinitionError(msg)
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
    """Translate an interrupt before the first record.

    Raises:
        InterruptedRunError: The user interrupted the block.
    """
    try:
        yield
    except KeyboardInterrupt:
        msg = "Interrupted before a record was sent; the same command starts again."
        raise InterruptedRunError(msg) from None


def _reject_empty(request: Request, count: int) -> None:
    """Reject a file without records: its writer may have failed. A time range of a file may be empty.

    Raises:
        DefinitionError: The file has no records.
    """
    if not count and request.log_times == ALL_TIMES:
        msg = f"{request.file}: expected at least one record, got none ({request.file.stat().st_size:,} bytes)."
        raise DefinitionError(msg + "\nHint: nothing was sent.")


@dataclass(frozen=True, slots=True)
class FileTransfer:
    """Transfer of a file that has been read and validated."""

    settings: Settings
    topic: str
    request: Request
    client: LogClient
    spool: Spool
    content: FileContent
    clock: Clock
    progress: Progress

    def send(self) -> Summary:
        """Send the records that are not in the topic yet."""
        began, read = self.clock.monotonic(), self.spool.count
        with explain_interrupt():
            sha256 = file_sha256(self.request.file)
            existing = find_topic(self.client, self.topic, self.request.partitions)
            history, resumed = self._find_sent(existing, sha256)
            malformed = self.spool.summarize_malformed(EXAMPLES)
            if resumed is None or resumed.read < self.content.records:
                self._reject_malformed(malformed, is_grown=self.spool.count < read)
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
        """Return the history of the file and the run to resume, and drop records that are already in the topic."""
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

    def _reject_malformed(self, malformed: MalformedSummary, *, is_grown: bool) -> None:
        """Reject records whose first ones are all malformed: a log cannot take them back.

        A few records at the end of a file that has grown may all be malformed.

        Raises:
            DefinitionError: They are, and sending them was not confirmed.
        """
        if self.request.confirm or not malformed.records:
            return
        count, leading = self.spool.count, self.spool.count_leading_malformed()
        if leading < min(count, FIRST_RECORDS) or (is_grown and count < FEW_RECORDS):
            return
        records = count_noun(count, "record")
        if leading < count:
            records = f"the first {leading:,} of {records}"
        reasons = " or ".join(malformed.reasons)
        msg = (
            f"{self.request.file}: expected well-formed records for topic `{self.topic}`, but each of {records} "
            f"would be malformed ({reasons}), such as {malformed.examples[0]}."
        )
        hint = "\nHint: nothing was sent, and a log cannot take records back; correct the file or the definition, or "
        raise DefinitionError(msg + hint + "send them with `--confirm`.")

    def _describe_difference(self, difference: FileDifference) -> str:
        run = difference.run
        line = find_line(self.request.file, difference.record, self.content.layout)
        name = "the file" if run.file == self.request.file.name else f"`{run.file}`"
        return (
            f"{self.request.file}: differs from line {line} on from {name} that was sent to topic `{self.topic}` at "
            f"{run.at}, which held {difference.common:,} of its {count_noun(self.content.records, 'record')}."
        )

    def _drop_sent(self, log: LogId, runs: tuple[ProducedRun, ...]) -> ProducedRun | None:
        """Drop records that are already in the topic, and return the interrupted run to resume, if there is one.

        Raises:
            DefinitionError: All records were sent before.
            LogError: It is unknown what an interrupted run sent.
        """
        read = self.spool.count
        interrupted = [run for run in runs if not run.finished]
        delivered = find_delivered(self.client, log, [run for run in interrupted if run.run])
        resumed = self._find_resumed(interrupted)
        is_repeat = resumed is not None and resumed.again  # it sends records that other runs have sent
        for run in runs:
            if run.finished:
                first_record = resumed.read if resumed is not None and is_repeat else 0
                self.spool.drop_time_range(first_record, run.read or self.content.records, run.log_times)
            elif run is resumed or not (run.again or is_repeat):
                self.spool.drop_numbers(delivered.get(run.run, set()))
        is_sent = read and resumed is None and not self.spool.count
        if runs and (is_sent or any(not run.run for run in interrupted)):
            raise self._make_repeat_error(runs)
        return resumed

    def _find_resumed(self, interrupted: list[ProducedRun]) -> ProducedRun | None:
        """Return the latest interrupted run with the same time range, unless the file has become shorter since."""
        resumable = (run for run in reversed(interrupted) if run.run and run.log_times == self.request.log_times)
        return next((run for run in resumable if run.read <= self.content.records), None)

    def _make_repeat_error(self, runs: tuple[ProducedRun, ...]) -> DefinitionError:
        complete_runs = [run for run in runs if run.finished and run.log_times == ALL_TIMES and self._covers_file(run)]
        run = complete_runs[-1] if complete_runs else runs[-1]
        is_one_run = complete_runs or len(runs) == 1
        was_sent = "the file was sent" if is_one_run else f"{len(runs)} runs have sent them, the latest"
        name = f" as `{run.file}`" if run.file != self.request.file.name else ""
        part = "" if run.finished else " in part; that run was interrupted, and how much it sent was not noted"
        msg = (
            f"{self.request.file}: expected records that topic `{self.topic}` does not hold yet, but {was_sent} "
            f"at {run.at}{name}{part}."
        )
        return DefinitionError(
            f"{msg}\nHint: nothing was sent; `--again` sends the file again and duplicates its records."
        )

    def _covers_file(self, run: ProducedRun) -> bool:
        return not run.read or run.read >= self.content.records

    def _make_run(self, log: LogId, history: History, resumed: ProducedRun | None, sha256: str) -> ProducedRun:
        if resumed is None:
            run, resend = secrets.token_hex(RUN_CHARACTERS // 2), self.request.resend
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
    """Return the runs whose records are now all in the topic: this one, and interrupted ones that it completed."""
    completed = (
        other
        for other in history.runs
        if not (run.again or other.again) and other.log_times == run.log_times and other.read <= run.read
    )
    return {run.run, *(other.run for other in completed)}
