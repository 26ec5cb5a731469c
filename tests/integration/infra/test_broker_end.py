"""A broker that tests started ends with them, however they end."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.suite.until import until

PROGRAM = """
import sys, time
from pathlib import Path
from tests.support.servers.broker import Broker

broker = Broker(Path(sys.argv[1]))
broker.start()
print(broker.process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_no_broker_outlives_a_test_run_that_was_killed(tmp_path: Path, sign: signal.Signals) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as tests:
        assert tests.stdout is not None
        broker = psutil.Process(int(tests.stdout.readline()))
        tests.send_signal(sign)
        ended = tests.wait(30)

    assert ended == -sign
    until(lambda: not broker.is_running() or broker.status() == psutil.STATUS_ZOMBIE, 30)
