"""JARs of Spark, Kafka and object stores, fetched once by PySpark's Ivy and verified by locked SHA-256 sums.

PySpark runs on the Java runtime that is found on this machine. The sets `spark` and `kafka` are never on one class
path. `s3` lets Spark access an object store; the bootstrap does not fetch it (0.7 GB). The JARs are stored in
`<prefix of the interpreter>/share/cutover/jars/`: they belong to the installed environment, not to the state of an
installation, so `make purge` retains them.
"""

import hashlib
import os
import re
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
REPORT_EVERY_SECONDS = 10.0

MIN_JAVA = 17
JAVA_HINT = "apt install openjdk-17-jre-headless | dnf install java-17-openjdk-headless | brew install openjdk@17"


class JarError(CutoverError):
    """JAR that could not be fetched, or that differs from the locked one."""


def locate_jars(jar_set: JarSet) -> Path:
    """Return `<environment>/share/cutover/jars/<set>`; it need not exist."""
    return ROOT / jar_set


def class_path(jar_set: JarSet) -> str:
    """Return the wildcard that Java expands to all JARs of the set."""
    return str(locate_jars(jar_set) / "*")


def read_locked_checksums(jar_set: JarSet) -> dict[str, str]:
    """Read the locked SHA-256 (hex) of each file from `infra/install/<set>-jars.sha256`."""
    lines = (HERE / f"{jar_set}-jars.sha256").read_text(encoding="utf-8").split("\n")
    return {name: checksum for checksum, name in (line.split() for line in lines if line)}


def hash_jars(path: Path) -> dict[str, str]:
    """Compute the SHA-256 (hex) of each JAR in a folder; empty if there is none."""
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in path.glob("*.jar")}


def compare_checksums(expected: Mapping[str, str], actual: Mapping[str, str]) -> list[str]:
    """Describe each JAR that is missing, not locked, or different from the locked one."""
    lines = [f"{name}: missing" for name in sorted(expected.keys() - actual.keys())]
    lines += [f"{name}: not in the lock" for name in sorted(actual.keys() - expected.keys())]
    both = sorted(expected.keys() & actual.keys())
    lines += [f"{n}: expected sha256 {expected[n]}, got {actual[n]}" for n in both if expected[n] != actual[n]]
    return lines


def find_problems(jar_set: JarSet) -> list[str]:
    """Describe the problems of the installed JARs of a set; empty if all are as locked."""
    return compare_checksums(read_locked_checksums(jar_set), hash_jars(locate_jars(jar_set)))


def fetch(jar_set: JarSet, report_progress: Callable[[str], None]) -> None:
    """Fetch a set, verify it, and install it atomically; a set with a wrong JAR is discarded.

    Raises:
        JarError: Ivy failed, or a JAR differs from the locked one.
    """
    ROOT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{jar_set}-", dir=ROOT) as scratch:
        fresh = Path(scratch) / "jars"
        _run_ivy(jar_set, Path(scratch), fresh, report_progress)
        problems = compare_checksums(read_locked_checksums(jar_set), hash_jars(fresh))
        if problems:
            msg = f"JARs for {jar_set} do not match `infra/install/{jar_set}-jars.sha256`; nothing was installed:\n  "
            msg += "\n  ".join(problems) + "\nHint: the repository has other files; ask the owner of your Maven mirror."
            raise JarError(msg)
        shutil.rmtree(locate_jars(jar_set), ignore_errors=True)
        fresh.rename(locate_jars(jar_set))


def ivy_command(jar_set: JarSet, scratch: Path, target: Path) -> list[str]:
    """Build the command that fetches a set into `target`, with Ivy's cache in `scratch`.

    `CUTOVER_IVY_SETTINGS` may name an Ivy settings file, which a site with a Maven mirror needs.
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
        msg = "Ivy is missing: expected `jars/ivy-*.jar` in the installed pyspark.\nHint: run `make setup`."
        raise JarError(msg)
    return jars[-1]


def _run_ivy(jar_set: JarSet, scratch: Path, target: Path, report_progress: Callable[[str], None]) -> None:
    log = scratch / "ivy.log"
    with log.open("wb") as log_file:
        process = subprocess.Popen(
            ivy_command(jar_set, scratch, target), stdin=subprocess.DEVNULL, stdout=log_file, stderr=subprocess.STDOUT
        )
        _wait_for(process, f"{len(read_locked_checksums(jar_set))} JARs for {jar_set}", report_progress)
    if process.returncode != 0:
        tail = log.read_text(encoding="utf-8", errors="replace")[-2000:]
        msg = f"JARs for {jar_set} could not be fetched: Ivy ended with {process.returncode}.\n{tail}"
        msg += "\nHint: a Maven repository has to be reachable once; later starts need no network."
        raise JarError(msg)


def _wait_for(process: subprocess.Popen[bytes], subject: str, report_progress: Callable[[str], None]) -> None:
    began = time.monotonic()
    report_progress(f"fetching {subject}")
    try:
        while True:
            try:
                process.wait(timeout=REPORT_EVERY_SECONDS)
            except subprocess.TimeoutExpired:
                report_progress(f"fetching {subject}: {time.monotonic() - began:.0f} s")
            else:
                return
    except BaseException:
        process.kill()
        process.wait()
        raise


def main(names: Sequence[str]) -> int:
    """Fetch the named sets that are not installed as locked; without a name, those of the bootstrap."""

    def print_line(line: str) -> None:
        sys.stdout.write(f"  {line}\n")
        sys.stdout.flush()

    try:
        for jar_set in (SETS[name] for name in names or BOOTSTRAP):
            if find_problems(jar_set):
                fetch(jar_set, print_line)
    except JarError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def find_java_version() -> str | None:
    """Read the version of `java` on PATH, such as `17.0.15`; None if it is missing or does not run."""
    try:
        completed = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', completed.stderr + completed.stdout)
    return match.group(1) if match else None


def is_supported_java(java_version: str | None) -> bool:
    """Check that a version is new enough."""
    return java_version is not None and int(re.split(r"[.\-+_]", java_version)[0]) >= MIN_JAVA


def require_java() -> None:
    """Check that Java is installed in a sufficient version.

    Raises:
        CutoverError: It is missing or too old.
    """
    java_version = find_java_version()
    if not is_supported_java(java_version):
        msg = f"Java: expected {MIN_JAVA} or newer on PATH, got {java_version or 'none'}.\nHint: {JAVA_HINT}"
        raise CutoverError(msg)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
