"""Java runtime of this machine."""

import re
import subprocess

from cutover.errors import CutoverError

MIN_VERSION = 17
HINT = "apt install openjdk-17-jre-headless | dnf install java-17-openjdk-headless | brew install openjdk@17"


def version() -> str | None:
    """Read the version of `java` on PATH, such as `17.0.15`; None if it is missing or does not run."""
    try:
        completed = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', completed.stderr + completed.stdout)
    return match.group(1) if match else None


def fits(java_version: str | None) -> bool:
    """Check that a version is new enough."""
    return java_version is not None and int(re.split(r"[.\-+_]", java_version)[0]) >= MIN_VERSION


def require() -> None:
    """Check that Java is installed in a sufficient version.

    Raises:
        CutoverError: It is missing or too old.
    """
    java_version = version()
    if not fits(java_version):
        msg = f"Java: expected {MIN_VERSION} or newer on PATH, got {java_version or 'none'}.\nHint: {HINT}"
        raise CutoverError(msg)
