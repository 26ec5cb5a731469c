"""Resource usage of a process and its descendants, as counted by the kernel."""

import subprocess
import sys
from pathlib import Path

import pytest

from cutover.engine import usage
from cutover.engine.usage import UsageMeter

BUSY = """
import time
began = time.process_time()
while time.process_time() - began < 0.3:
    pass
open("/dev/zero", "rb").read(5_000_000)
"""


def write_proc_files(proc: Path, pid: int, *, ticks: int, read: int, children: str = "") -> None:
    """Write the `/proc` files of a process whose name contains a bracket."""
    folder = proc / str(pid)
    (folder / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
    fields = ["S", *["0"] * 10, str(ticks), "0", "0", "0", "20"]
    (folder / "stat").write_text(f"{pid} (a) b) {' '.join(fields)}")
    (folder / "io").write_text(f"rchar: {read}\nwchar: 1\n")
    (folder / "task" / str(pid) / "children").write_text(children)


def test_a_child_that_has_ended_is_counted_with_its_parent() -> None:
    meter = UsageMeter()

    subprocess.run([sys.executable, "-c", BUSY], check=True)
    usage_sample = meter.measure()

    assert usage_sample is not None
    assert 0.3 <= usage_sample.core_seconds < 30
    assert usage_sample.read_bytes >= 5_000_000


def test_processes_that_descend_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_LIST_SECONDS", 0.0)
    write_proc_files(tmp_path, 1, ticks=100, read=10, children="2 ")
    write_proc_files(tmp_path, 2, ticks=0, read=0, children="3 ")
    write_proc_files(tmp_path, 3, ticks=0, read=0)
    meter = UsageMeter(proc=tmp_path, pid=1)

    write_proc_files(tmp_path, 1, ticks=150, read=20, children="2 ")
    write_proc_files(tmp_path, 3, ticks=250, read=7)
    usage_sample = meter.measure()

    assert usage_sample is not None
    assert (usage_sample.core_seconds, usage_sample.read_bytes) == (300 / usage._TICKS, 17)


def test_usage_never_decreases_if_a_child_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_LIST_SECONDS", 0.0)
    write_proc_files(tmp_path, 1, ticks=0, read=0, children="2 ")
    write_proc_files(tmp_path, 2, ticks=0, read=0)
    meter = UsageMeter(proc=tmp_path, pid=1)
    write_proc_files(tmp_path, 2, ticks=500, read=9)
    sample_before = meter.measure()
    write_proc_files(tmp_path, 1, ticks=1, read=1, children="")

    assert sample_before is not None
    assert sample_before.core_seconds == 500 / usage._TICKS
    assert meter.measure() == sample_before


def test_usage_is_unknown_without_the_kernels_files(tmp_path: Path) -> None:
    assert UsageMeter(proc=tmp_path / "none").measure() is None
