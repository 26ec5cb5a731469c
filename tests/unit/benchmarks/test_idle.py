"""Processor time of a program, as the figure of an idle installation counts it."""

import os
import subprocess
import sys

from benchmarks.figures.installation.idle import count_processor_seconds

BUSY = "import time\nwhile time.process_time() < 0.3: pass"


def test_a_child_that_has_ended_is_counted_with_its_parent() -> None:
    processor_seconds = count_processor_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", BUSY], check=True)

    assert count_processor_seconds(os.getpid()) - processor_seconds >= 0.25


def test_the_supervisor_is_counted_without_the_programs_below_it() -> None:
    processor_seconds = count_processor_seconds(os.getpid(), with_children=False)
    subprocess.run([sys.executable, "-c", BUSY], check=True)

    assert count_processor_seconds(os.getpid(), with_children=False) - processor_seconds < 0.25
