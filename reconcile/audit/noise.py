"""Noise of a pipeline: how far its results differ over the same records, and the tolerances that would accept it.

Batch is computed again in one epoch with other tasks, the stream with other epoch ends, order and tasks; all of them
are compared with one result. Integers, decimals and doubles add up exactly in any order here, so a measure without a
cause for noise has none at all: all noise comes from the expression. Of the recorded measurements, the newest one of a
definition counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cutover import json_text
from cutover.clock import Clock
from cutover.counts import count_noun
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.policy import MAX_ACCEPTED_ROWS
from cutover.lake.journal import Journal
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.audit import run
from cutover.reconcile.audit.run import BlamedMeasure, DifferenceSize
from cutover.reconcile.journal_rows import NoiseRow, list_result_rows
from cutover.reconcile.result.parts import NoiseLevel, NoiseMeasure
from cutover.settings import Settings

BATCH, STREAM = "batch", "stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseOfMeasure:
    """A measure that differs from itself; of several replays the largest figures."""

    column: str  # a result, a state of it, or the windows and keys
    expression: str
    paths: tuple[str, ...]  # batch: other tasks are enough; stream: other epochs
    replays: int  # in which it differs
    rows: int  # (window, key) rows in one replay
    size: DifferenceSize | None  # None: no numbers
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Result of a measurement of noise."""

    pipeline: str
    at: str  # ISO 8601, UTC
    result_fingerprint: str
    records: int  # offsets computed again and again
    rows: int  # (window, key) rows compared
    batches: int  # computations with other tasks
    streams: int  # with other epochs
    seed: int
    measures: tuple[NoiseOfMeasure, ...]

    @property
    def exit_code(self) -> int:
        """Return 0: nothing differs; 1: something does."""
        return int(bool(self.measures))


def measure_noise(lake: PipelineLake, *, batches: int, streams: int, seed: int, clock: Clock) -> Noise:
    """Compute what the log holds now several times and compare; no table is written.

    Args:
        lake: Pipeline whose log is computed.
        batches: Computations in one epoch with other tasks.
        streams: Computations with other epoch ends, order and tasks.
        seed: Draws them.
        clock: For the time of the measurement.

    Raises:
        LogError: The topic is not there, or holds no record.
    """
    at = clock.now().isoformat(timespec="seconds").replace("+00:00", "Z")
    audit = run.audit_determinism(lake, replays=streams, seed=seed, repartitions=batches)
    blamed_by_path = [
        (BATCH if replay.replay > streams else STREAM, blamed) for replay in audit.replays for blamed in replay.blamed
    ]
    return Noise(
        pipeline=lake.name,
        at=at,
        result_fingerprint=result_fingerprint(lake.pipeline),
        records=audit.records,
        rows=audit.rows,
        batches=batches,
        streams=streams,
        seed=seed,
        measures=tuple(_add_up(blamed_by_path)),
    )


def _add_up(blamed_by_path: Sequence[tuple[str, BlamedMeasure]]) -> Iterable[NoiseOfMeasure]:
    for column in dict.fromkeys(blamed.column for _, blamed in blamed_by_path):
        of_column = [(path, blamed) for path, blamed in blamed_by_path if blamed.column == column]
        worst = max((blamed for _, blamed in of_column), key=lambda measure: measure.rows)
        yield NoiseOfMeasure(
            column=column,
            expression=worst.expression,
            paths=tuple(sorted({path for path, _ in of_column})),
            replays=len(of_column),
            rows=worst.rows,
            size=_find_most([blamed.size for _, blamed in of_column if blamed.size is not None]),
            example=worst.example,
        )


def _find_most(sizes: Sequence[DifferenceSize]) -> DifferenceSize | None:
    if not sizes:
        return None
    names = ("largest", "relative", "half", "p95", "p99", "volume")
    return DifferenceSize(**{name: max(getattr(size, name) for size in sizes) for name in names})


def make_rule(noise: Noise, pipeline: Pipeline) -> str | None:
    """Return a rule of acceptance that the noise fits into, as TOML to review; None where a rule would be no answer.

    Its owner, reason and end are left for a person to fill in, so that it is refused as it stands. There is none where
    windows or keys come and go, for more rows than a rule may accept, or without a number.
    """
    own_measures = [measure for measure in noise.measures if measure.column in pipeline.measures]
    fits = all(measure.size is not None and measure.rows <= MAX_ACCEPTED_ROWS for measure in own_measures)
    state_measures = {measure.column.rpartition("__")[0] for measure in noise.measures if measure not in own_measures}
    if not own_measures or not fits or not state_measures <= {measure.column for measure in own_measures}:
        return None
    volumes = ", ".join(
        f"{measure.column} = {measure.size.volume!r}" for measure in own_measures if measure.size is not None
    )
    names = ", ".join(f'"{measure.column}"' for measure in own_measures)
    max_rows = max(measure.rows for measure in own_measures)
    return (
        'reason = ""\nowner = ""\nexpires = ""\nall = true\nkinds = ["changed"]\n'
        f"measures = [{names}]\nmax_rows = {max_rows}\nmax_volume = {{ {volumes} }}\n"
    )


def record_noise(settings: Settings, noise: Noise, clock: Clock) -> None:
    """Append a measurement to the history."""
    row = NoiseRow(
        pipeline=noise.pipeline,
        result_fingerprint=noise.result_fingerprint,
        at=clock.now(),
        result=json_text.encode_dataclass(noise),
    )
    Journal(settings, noise.pipeline, NoiseRow).append(row)


def find_newest_noise(lake: PipelineLake) -> Noise | None:
    """Return the newest measurement under the definition in force; None: there is none.

    Raises:
        LakeError: The history cannot be read.
    """
    rows = list_result_rows(lake, NoiseRow)
    return json_text.parse_dataclass(Noise, rows[-1].result) if rows else None


def find_level(lake: PipelineLake) -> NoiseLevel | None:
    """Return what the newest measurement has come to, as a report shows it; None: there is none.

    Raises:
        LakeError: The history cannot be read.
    """
    latest = find_newest_noise(lake)
    if latest is None:
        return None
    measures = tuple(map(_make_measure, latest.measures))
    return NoiseLevel(at=latest.at, sentence=describe_noise(latest), rows=latest.rows, measures=measures)


def _make_measure(noise_of_measure: NoiseOfMeasure) -> NoiseMeasure:
    size = noise_of_measure.size
    return NoiseMeasure(
        column=noise_of_measure.column,
        paths=noise_of_measure.paths,
        rows=noise_of_measure.rows,
        half=None if size is None else size.half,
        p99=None if size is None else size.p99,
        largest=None if size is None else size.largest,
        relative=None if size is None else size.relative,
    )


def describe_noise(noise: Noise) -> str:
    """Return one sentence on what a measurement has come to."""
    over = (
        f"{count_noun(noise.batches, 'batch')} and {count_noun(noise.streams, 'stream')} over "
        f"{count_noun(noise.records, 'offset')}, seed {noise.seed}"
    )
    if not noise.measures:
        return f"No noise was found: {over} gave one answer."
    names = ", ".join(measure.column for measure in noise.measures)
    return f"Noise in {names}: {over} gave more than one answer."
