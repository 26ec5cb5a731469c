"""A flipped bit in any file of the lake never gives a verdict that the data do not give: the campaign's short form."""

from collections import Counter
from pathlib import Path

import pytest

from cutover.clock import SystemClock
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.watch.collector import FactCollector
from cutover.reconcile.watch.status import make_status
from tests.integration.reconcile.lake_of import PIPELINE, reconcile
from tests.support.comparison import flips

FLIPS, SEED = 1, 7
DATA = ("stream/partial", "stream/ledger", "stream/epoch", "batch", "batch_index")
LOGS = ("_delta_log of stream (.json)", "_delta_log of batch (.json)", "_delta_log of stream (.parquet)")
CHANGES = [
    pytest.param("stream", b'"_kind":"partial"', b'"_kind":"partiam"', id="partition value that no reader requests"),
    pytest.param("stream", b'"_kind":"ledger"', b'"_kind":"partial"', id="partition value of another kind"),
    pytest.param("stream", b'"_kind":"epoch"', b'"_kinf":"epoch"', id="partition column that is none"),
    pytest.param("stream", b'"add"', b'"aed"', id="action of the epoch log that no reader knows"),
    pytest.param("batch", b'"add"', b'"add\\u0000"', id="action of the batch table that no reader knows"),
    pytest.param("batch_index", b'"add"', b'"aed"', id="action of the batch index that no reader knows"),
    pytest.param("_control/gate", b'"add"', b'"aed"', id="action of a control table that no reader knows"),
    pytest.param("batch", b".parquet", b".pbrquet", id="path of a file that is not there"),
]
"""Changes of a JSON entry by a bit or by hand: the entry still parses, and lists another set of files."""


@pytest.fixture(scope="module")
def outcomes_by_kind(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[str]]:
    return dict(flips.campaign(Path(tmp_path_factory.mktemp("lake")), FLIPS, SEED, {*DATA, *LOGS}.__contains__))


def test_no_flipped_bit_gives_a_wrong_verdict_or_an_error_of_ours(outcomes_by_kind: dict[str, Counter[str]]) -> None:
    assert [text for outcomes in outcomes_by_kind.values() for text in outcomes if text.startswith("WRONG")] == []


@pytest.mark.parametrize("kind", DATA)
def test_a_flipped_bit_of_a_data_file_names_the_file(outcomes_by_kind: dict[str, Counter[str]], kind: str) -> None:
    assert outcomes_by_kind[kind]["named"] == FLIPS


@pytest.mark.parametrize(("table", "original", "damaged"), CHANGES)
def test_a_changed_log_entry_is_named_and_no_row_is_blamed(
    tmp_path: Path, table: str, original: bytes, damaged: bytes
) -> None:
    settings = flips.make_lake(tmp_path)
    (entry,) = [
        file for file in Path(settings.lake_uri).rglob(f"{table}/_delta_log/*.json") if original in file.read_bytes()
    ][-1:]
    entry.write_bytes(entry.read_bytes().replace(original, damaged, 1))

    lake = PipelineLake(settings, PIPELINE)
    status = make_status(FactCollector(lake, SystemClock()).collect())
    compared = reconcile(lake)

    alert_texts = [alert.text for alert in status.alerts if alert.name in {"TableUnreadable", "EpochHistoryBroken"}]
    assert any(str(entry.parent.parent) in text for text in alert_texts)
    assert not {"ForeignWrite", "StreamNotRunning", "LogDataLost"} & {alert.name for alert in status.alerts}
    assert compared.finding.exit_code == 2
    assert compared.finding.verdict is Verdict.NOT_COMPARABLE
    assert any(str(entry.parent.parent) in breach.message for breach in compared.finding.seal.breaches)
    assert "ForeignWrite" not in {breach.runbook for breach in compared.finding.seal.breaches}
