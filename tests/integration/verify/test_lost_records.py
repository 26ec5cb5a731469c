"""Records that the log lost behind the stream: what the epochs counted is not proven, and no epoch is accused."""

from cutover.reconcile.verify.facts.facts import CheckState
from cutover.reconcile.verify.record import verify_pipeline
from cutover.settings import Settings
from tests.integration.streaming.rig import Event, send
from tests.integration.verify.lab import build
from tests.support.log import compacted

EPOCHS = tuple([Event(id=4 * n + i, minute=20 * n + i, partition=i % 2) for i in range(4)] for n in range(3))


def test_loss_inside_the_log_accuses_no_epoch(kafka_settings: Settings, topic_name: str) -> None:
    lab = build(kafka_settings, topic_name, EPOCHS)
    compacted.roll_segments(lab.lake.settings, topic_name)
    send(lab.lake.settings, topic_name, [Event(id=20 + p, minute=90, partition=p) for p in range(2)])
    assert len(compacted.compact(lab.lake.settings, topic_name, least=12)) == 12
    compacted.disable_compaction(lab.lake.settings, topic_name)

    verification = verify_pipeline(lab.lake, only=("N1", "N4"), exhaustive=True)

    assert [checked.state for checked in verification.checks.values()] == [CheckState.NOT_PROVABLE] * 2
    assert all("Epoch 0 read 4 records, the log holds 0 of them" in c.reason for c in verification.checks.values())
    assert (verification.exit_code, verification.runbook, verification.violations) == (2, "LogDataLost", ())
