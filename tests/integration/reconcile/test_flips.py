"""A flipped bit in any file of the lake never gives a verdict that the data do not give: the campaign's short form."""

from collections import Counter
from pathlib import Path

import pytest

from tests.support.comparison import flips

FLIPS, SEED = 1, 7
DATA = ("stream/partial", "stream/ledger", "stream/epoch", "batch", "batch_index")
LOGS = ("_delta_log of stream (.json)", "_delta_log of batch (.json)")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[str]]:
    return dict(flips.campaign(Path(tmp_path_factory.mktemp("lake")), FLIPS, SEED, (*DATA, *LOGS)))


def test_no_flipped_bit_gives_a_wrong_verdict_or_an_error_of_ours(found: dict[str, Counter[str]]) -> None:
    assert [text for outcomes in found.values() for text in outcomes if text.startswith("WRONG")] == []


@pytest.mark.parametrize("kind", DATA)
def test_a_flipped_bit_of_a_data_file_names_the_file(found: dict[str, Counter[str]], kind: str) -> None:
    assert found[kind]["named"] == FLIPS
