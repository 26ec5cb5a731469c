"""All faults. A family's module has `FAULTS`, and `RUN_ELSEWHERE` where tests of another kind cause it."""

from importlib import import_module
from pkgutil import walk_packages

from tests.faults.fault import Fault, RunElsewhere

_MODULES = [import_module(package.name) for package in walk_packages(__path__, f"{__name__}.") if not package.ispkg]


def everything() -> tuple[Fault, ...]:
    """Return every fault of every family, by name."""
    faults = [fault for module in _MODULES for fault in module.FAULTS]
    return tuple(sorted(faults, key=lambda fault: fault.name))


def run_elsewhere() -> tuple[RunElsewhere, ...]:
    """Return what cannot be run here, by name."""
    return tuple(entry for module in _MODULES for entry in getattr(module, "RUN_ELSEWHERE", ()))


def list_promised() -> dict[str, str]:
    """Return id and title of every fault that is promised and that no family has."""
    covered = {fault.id for fault in everything()} | {entry.id for entry in run_elsewhere()}
    return {name: title for name, title in PROMISED.items() if name not in covered}


PROMISED = {
    "F01": "driver killed",
    "F02": "killed after the commit",
    "F03": "killed before the commit, redone with another end",
    "F04": "second writer",
    "F05": "Spark's checkpoint deleted",
    "F06": "broker",
    "F07": "partitions added",
    "F08": "retention passed the reader",
    "F09": "topic re-created",
    "F10": "transactions",
    "F11": "unsafe settings",
    "F12": "future event",
    "F13": "idle",
    "F14": "late burst",
    "F15": "poison",
    "F16": "duplicate send",
    "F17": "clock skew",
    "F18": "schema change",
    "F19": "key skew, many keys",
    "F20": "other epoch borders",
    "F21": "disk full",
    "F22": "table log damaged",
    "F23": "data file missing",
    "F24": "restored manually",
    "F25": "compaction",
    "F26": "vacuum against a pin",
    "F27": "batch killed",
    "F28": "planted differences",
    "F29": "Airflow worker lost",
    "F30": "Airflow services lost",
    "F31": "difference after retirement",
    "F32": "hostile values",
    "F33": "path traversal",
    "F34": "log rewritten under the same topic id",
    "F35": "settings drift",
    "F36": "stored bytes",
    "F37": "older comparison",
    "F38": "order and split",
    "F39": "contradicting copies of one id",
    "F40": "nothing to compare",
    "F41": "foreign write",
    "F42": "records inside the log removed",
    "F43": "clocks of evidence",
    "F44": "unreadable fact",
    "F45": "empty or shrunk input",
    "F46": "reading changes a value",
}
