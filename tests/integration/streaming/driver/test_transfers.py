"""Internal consistency: at every epoch, while drivers die, all balances add up to zero and are those of the log."""

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka import Producer

from cutover.batch import recompute
from cutover.clock import Point, Probe, silent
from cutover.definition.loading.catalogue import get
from cutover.errors import CutoverError, DefinitionError
from cutover.lake.serving import views
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.samples.transfers import generate_transfers
from cutover.settings import Settings
from cutover.streaming import driver
from pipelines.transfers import BALANCES
from tests.integration.streaming import rig

AT_ONCE = 4  # records of an epoch, of two partitions
Sent = Mapping[int, list[dict[str, Any]]]  # partition -> its records, by offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of a trial."""

    transfers: int
    epochs: int  # that are checked, drawn from all


def send(settings: Settings, topic: str, transfers: Iterable[dict[str, Any]]) -> Sent:
    producer = Producer({"bootstrap.servers": str(settings.kafka.bootstrap_servers), "enable.idempotence": True})
    sent_transfers: dict[int, list[dict[str, Any]]] = {0: [], 1: []}
    for transfer in transfers:
        partition = transfer["id"] % 2
        producer.produce(topic, json.dumps(transfer).encode(), partition=partition, timestamp=transfer["logged"])
        sent_transfers[partition].append(transfer)
    assert producer.flush(30) == 0
    return sent_transfers


def dies(stop_point: Point, epoch_number: int) -> Probe:
    def stop_driver(point: Point, epoch: int) -> None:
        if (point, epoch) == (stop_point, epoch_number):
            msg = "the driver was killed"
            raise OSError(msg)

    return stop_driver


def balances(sent_transfers: Sent, end: Mapping[int, int]) -> dict[str, Decimal]:
    """Return what each account has of the records before an end, in plain Python."""
    balance_by_account: dict[str, Decimal] = defaultdict(Decimal)
    for partition, transfers in sent_transfers.items():
        for transfer in transfers[: end.get(partition, 0)]:
            balance_by_account[transfer["payee"]] += Decimal(str(transfer["amount"]))
            balance_by_account[transfer["payer"]] -= Decimal(str(transfer["amount"]))
    return dict(balance_by_account)


def read_balances(lake: PipelineLake, epoch: int) -> dict[str, Decimal]:
    with views.open_views(lake, epoch=epoch) as connection:
        return dict(connection.execute(BALANCES).fetchall())


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(Size(transfers=60, epochs=12), id="few"),
        pytest.param(Size(transfers=1_000, epochs=200), id="many", marks=[pytest.mark.long, pytest.mark.timeout(1800)]),
    ],
)
def test_balances_add_up_at_every_epoch_while_drivers_die(quick: Settings, topic: str, size: Size) -> None:
    settings = rig.fast(quick, fold_every=10_000)  # a fold would make one epoch of many
    sample = get(settings, "transfers")
    pipeline = replace(rig.over_topic(sample, topic), max_rows_per_epoch=AT_ONCE)
    sent_transfers = send(settings, topic, generate_transfers(count=size.transfers, accounts=20, seed=size.transfers))

    lake = PipelineLake(settings, pipeline)
    for death in (dies("epoch.aggregated", 3), dies("epoch.committed", 7)):
        with pytest.raises(CutoverError):
            driver.run_driver(lake, until="drain", probe=death)
    driver.run_driver(lake, until="drain", probe=silent)

    epoch_records = rig.records(lake)
    assert len(epoch_records) >= size.epochs
    for record in random.Random(size.epochs).sample(epoch_records, size.epochs):  # noqa: S311 -- a sample, no secret
        accounts = read_balances(lake, record.epoch)
        assert sum(accounts.values()) == 0
        assert accounts == balances(sent_transfers, record.end)
    with pytest.raises(DefinitionError, match=f"0 to {epoch_records[-1].epoch}"):
        read_balances(lake, epoch_records[-1].epoch + 1)
    recompute.recompute_windows(lake)
    driver.run_driver(lake, until="final")
    recompute.recompute_windows(lake)
    assert run_reconciliation(lake).finding.verdict is Verdict.CONSISTENT
