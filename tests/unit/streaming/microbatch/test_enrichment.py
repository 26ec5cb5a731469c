"""Versions of a dimension joined with epochs: refreshed every few seconds, not in every epoch."""

from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cutover.lake.dimensions import dimension, joined_versions
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from cutover.streaming.microbatch.epoch_record import StreamEnrichment
from tests.support.drivers.fed import HandClock


@pytest.fixture
def enrichment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[StreamEnrichment, HandClock]:
    """Enrichment with one lookup whose table has a new version on every read."""
    versions = count()

    def open_dimension(*_: Any) -> SimpleNamespace:
        return SimpleNamespace(version=next(versions), table_id="t", size=1, is_newest=lambda *_: False)

    monkeypatch.setattr(dimension, "open_dimension", open_dimension)
    monkeypatch.setattr(joined_versions, "join_version", Mock())
    clock = HandClock()
    return StreamEnrichment(PipelineLake(Settings(home=tmp_path), Mock(lookups={"rates": Mock()})), clock), clock


def test_a_new_version_is_loaded_every_few_seconds(enrichment: tuple[StreamEnrichment, HandClock]) -> None:
    stream_enrichment, clock = enrichment
    seconds = Settings().dimensions.look_seconds

    joined = []
    for wait in (0.0, seconds / 2, seconds / 2, seconds / 4, seconds):
        clock.seconds += wait
        joined.append(stream_enrichment.read_dimensions(Mock()).versions["rates"])

    assert joined == [0, 0, 1, 1, 2]


def test_nothing_is_loaded_without_lookups(tmp_path: Path) -> None:
    stream_enrichment = StreamEnrichment(PipelineLake(Settings(home=tmp_path), Mock(lookups={})), HandClock())

    assert stream_enrichment.read_dimensions(Mock()).versions == {}
