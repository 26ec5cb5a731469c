"""Measurements of noise: one row each, the newest of a definition counts."""

from cutover import json_text
from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.journal import Journal
from cutover.reconcile.audit.noise import Noise, NoiseOfMeasure
from cutover.reconcile.journal_rows import NoiseRow, list_result_rows
from cutover.reconcile.result.overview import NoiseLevel, NoiseMeasure
from cutover.settings import Settings


def record_noise(settings: Settings, noise: Noise, clock: Clock) -> None:
    """Append a measurement to the history."""
    row = NoiseRow(
        pipeline=noise.pipeline,
        result_fingerprint=noise.result_fingerprint,
        at=clock.now(),
        result=json_text.encode(noise),
    )
    Journal(settings, noise.pipeline, NoiseRow).append(row)


def find_newest_noise(settings: Settings, pipeline: Pipeline) -> Noise | None:
    """Return the newest measurement under the definition in force; None: there is none.

    Raises:
        LakeError: The history cannot be read.
    """
    rows = list_result_rows(settings, pipeline, NoiseRow)
    return json_text.parse(Noise, rows[-1].result) if rows else None


def find_level(settings: Settings, pipeline: Pipeline) -> NoiseLevel | None:
    """Return what the newest measurement has come to, as a report shows it; None: there is none.

    Raises:
        LakeError: The history cannot be read.
    """
    latest = find_newest_noise(settings, pipeline)
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
    over = f"{noise.batches} batches and {noise.streams} streams over {noise.records:,} offsets, seed {noise.seed}"
    if not noise.measures:
        return f"No noise was found: {over} gave one answer."
    names = ", ".join(measure.column for measure in noise.measures)
    return f"Noise in {names}: {over} gave more than one answer."
