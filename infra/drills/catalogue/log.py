"""Alerts on the log: a transaction that holds it, a broker that is silent."""

import os
import signal
from collections.abc import Callable

from cutover.infra.drills.drill import Drill
from cutover.infra.drills.stack import Stack
from cutover.infra.processes.supervisor import Supervisor

FEW = 6
ASK_SECONDS = 30.0


def kill_broker(stack: Stack) -> None:
    """Kill the broker and whoever would start it again."""
    supervisor = Supervisor(stack.home)
    identity = supervisor.identity()
    pids = [state.pid for state in supervisor.states() if state.pid]
    for pid in ([identity.pid] if identity is not None else []) + pids:
        os.kill(pid, signal.SIGKILL)


class OpenTransaction:
    """A producer that begins a transaction, and ends it when its owner was asked."""

    def __init__(self) -> None:
        self._end: Callable[[], object] = lambda: None

    def begin(self, stack: Stack) -> None:
        """Send records in a transaction and leave it open; others send behind it."""
        sender = stack.records.make_producer(**{"transactional.id": "drill", "transaction.timeout.ms": 600_000})
        sender.init_transactions(ASK_SECONDS)
        sender.begin_transaction()
        stack.records.send(FEW, by=sender)
        stack.records.send(FEW)
        self._end = lambda: sender.commit_transaction(ASK_SECONDS)

    def end(self, stack: Stack) -> None:
        """Commit it, as its owner was asked to, and let the stream read on."""
        self._end()
        stack.await_read()


_TRANSACTION = OpenTransaction()

DRILLS = (
    Drill(
        name="OpenTransactionHoldsLog",
        title="a producer leaves a transaction open",
        inject=_TRANSACTION.begin,
        heal=_TRANSACTION.end,
    ),
    Drill(name="KafkaUnreachable", title="the broker and its supervisor are killed", inject=kill_broker),
)
