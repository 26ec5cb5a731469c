"""Memory of process families, over real processes."""

import os
import subprocess
import sys

from cutover.infra.processes.family import PeakMemory, list_family, proportional_set_size
from tests.support.suite.until import until

MEGABYTE = 1_000_000
HOLD = "import sys; held = bytearray(60_000_000); print('held', flush=True); sys.stdin.read()"


def test_family_holds_a_process_and_its_children() -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert {os.getpid(), child.pid} <= list_family([os.getpid()])
        child.kill()


def test_ended_process_has_no_family_and_no_memory() -> None:
    assert (list_family([2**22 + 1]), proportional_set_size(2**22 + 1)) == (set(), 0)


def test_peak_is_kept_after_memory_is_released() -> None:
    with (
        subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child,
        PeakMemory(lambda: [child.pid], seconds=0.05) as memory,
    ):
        until(lambda: memory.peak > 50 * MEGABYTE)
        child.kill()
        until(lambda: proportional_set_size(child.pid) == 0)

    assert memory.peak > 50 * MEGABYTE
