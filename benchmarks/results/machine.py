"""Machine and package versions of a measurement, without host names and paths."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil

PACKAGES = ("pyspark", "delta-spark", "deltalake", "duckdb", "pyarrow", "confluent-kafka")


def describe() -> dict[str, str]:
    """Collect the facts that a reader needs to interpret a figure."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": str(os.cpu_count()),
        "processor": _processor(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "load_before": f"{os.getloadavg()[0]:.2f}",
        "python": platform.python_version(),
        "java": _java(),
        **{name: version(name) for name in PACKAGES},
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _java() -> str:
    stderr = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    return stderr.split('"')[1]
