"""The JARs: sets that are fetched once by PySpark's own Ivy and checked against our SHA-256 sums.

`spark` and `kafka` never mix. `s3` is Spark's way to an object store; the bootstrap leaves it out (0.7 GB).

They lie beside the packages, in `<prefix of the interpreter>/share/cutover/jars/{spark,kafka}`: they belong to the
installed environment, not to the state of an installation, so `make purge` keeps them.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from cutover.errors import CutoverError

JarSet = Literal["spark", "kafka", "s3"]
SETS: Mapping[str, JarSet] = {"spark": "spark", "kafka": "kafka", "s3": "s3"}
BOOTSTRAP: tuple[JarSet, ...] = ("spark", "kafka")
HERE = Path(__file__).parent
ROOT = Path(sys.prefix) / "share" / "cutover" / "jars"
PATTERN = "[artifact]-[revision](-[classifier]).[ext]"
TELL_EVERY_SECONDS = 10.0


class JarError(CutoverError):
    """A JAR could not be fetched, or is not the one that the lock names."""


def folder(jar_set: JarSet) -> Path:
    """`<environment>/share/cutover/jars/<set>`; it need not exist."""
    return ROOT / jar_set


def class_path(jar_set: JarSet) -> str:
    """Write the wildcard that Java expands to all JARs of the set's folder."""
    return str(folder(jar_set) / "*")


def read_locked_checksums(jar_set: JarSet) -> dict[str, str]:
    """Return file name -> SHA-256 (hex) as locked in `infra/install/<set>-jars.sha256`."""
    lines = (HERE / f"{jar_set}-jars.sha256").read_text(encoding="utf-8").split("\n")
    return {name: total for total, name in (line.split() for line in lines if line)}


def hash_jars(path: Path) -> dict[str, str]:
    """Return file name -> SHA-256 (hex) of the JARs in a folder; empty if there is none."""
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in path.glob("*.jar")}


def problems(expected: Mapping[str, str], actual: Mapping[str, str]) -> list[str]:
    """Return a line for each JAR that is missing, not locked, or not the locked one."""
    lines = [f"{name}: missing" for name in sorted(expected.keys() - actual.keys())]
    lines += [f"{name}: not in the lock" for name in sorted(actual.keys() - expected.keys())]
    both = sorted(expected.keys() & actual.keys())
    lines += [f"{n}: expected sha256 {expected[n]}, got {actual[n]}" for n in both if expected[n] != actual[n]]
    return lines


def check(jar_set: JarSet) -> list[str]:
    """Return what is wrong with the stored JARs of a set; empty when all are as locked."""
    return problems(read_locked_checksums(jar_set), hash_jars(folder(jar_set)))


def fetch(jar_set: JarSet, tell: Callable[[str], None]) -> None:
    """Fetch a set, check it, and put it in place as a whole; nothing is kept of a set that does not fit.

    Raises:
        JarError: Ivy failed, or a JAR is not the locked one.
    """
    ROOT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{jar_set}-", dir=ROOT) as scratch:
        fresh = Path(scratch) / "jars"
        _run_ivy(jar_set, Path(scratch), fresh, tell)
        wrong = problems(read_locked_checksums(jar_set), hash_jars(fresh))
        if wrong:
            msg = f"JARs for {jar_set} do not fit `infra/install/{jar_set}-jars.sha256`; nothing was kept:\n  "
            msg += "\n  ".join(wrong) + "\nHint: what came is not what was locked; ask whoever runs your Maven mirror."
            raise JarError(msg)
        shutil.rmtree(folder(jar_set), ignore_errors=True)
        fresh.rename(folder(jar_set))


def ivy_command(jar_set: JarSet, scratch: Path, target: Path) -> list[str]:
    """Return the command that lays a set into `target`; Ivy's cache stays in `scratch`.

    `CUTOVER_IVY_SETTINGS` may name an Ivy settings file: that is how a site with its own mirror hands it in.
    """
    ivy_settings = os.environ.get("CUTOVER_IVY_SETTINGS")
    return [
        "java",
        f"-Divy.home={scratch / 'home'}",
        "-jar",
        str(_ivy_jar()),
        "-warn",
        *(["-settings", ivy_settings] if ivy_settings else []),
        *("-cache", str(scratch / "cache")),
        *("-ivy", str(HERE / f"{jar_set}-ivy.xml")),
        *("-retrieve", str(target / PATTERN)),
    ]


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")
    jars = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not jars:
        msg = "Ivy is not there: expected `jars/ivy-*.jar` in the installed pyspark.\nHint: run `make setup`."
        raise JarError(msg)
    return jars[-1]


def _run_ivy(jar_set: JarSet, scratch: Path, target: Path, tell: Callable[[str], None]) -> None:
    log = scratch / "ivy.log"
    with log.open("wb") as log_file:
        process = subprocess.Popen(
            ivy_command(jar_set, scratch, target), stdin=subprocess.DEVNULL, stdout=log_file, stderr=subprocess.STDOUT
        )
        _wait(process, f"{len(read_locked_checksums(jar_set))} JARs for {jar_set}", tell)
    if process.returncode != 0:
        tail = log.read_text(encoding="utf-8", errors="replace")[-2000:]
        msg = f"JARs for {jar_set} could not be fetched: Ivy ended with {process.returncode}.\n{tail}"
        msg += "\nHint: a Maven repository must be reachable once; later starts need no network."
        raise JarError(msg)


def _wait(process: subprocess.Popen[bytes], subject: str, tell: Callable[[str], None]) -> None:
    began = time.monotonic()
    tell(f"fetching {subject}")
    try:
        while True:
            try:
                process.wait(timeout=TELL_EVERY_SECONDS)
            except subprocess.TimeoutExpired:
                tell(f"fetching {subject}: {time.monotonic() - began:.0f} s")
            else:
                return
    except BaseException:
        process.kill()
        process.wait()
        raise


def main(names: Sequence[str]) -> int:
    """Fetch the named sets that are not as locked; none named: those of the bootstrap."""

    def tell(line: str) -> None:
        sys.stdout.write(f"  {line}\n")
        sys.stdout.flush()

    try:
        for jar_set in (SETS[name] for name in names or BOOTSTRAP):
            if check(jar_set):
                fetch(jar_set, tell)
    except JarError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
