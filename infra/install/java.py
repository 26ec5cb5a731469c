"""The Java runtime of this machine."""

import re
import subprocess

from cutover.errors import CutoverError

NEEDED = 17
HINT = "apt install openjdk-17-jre-headless | dnf install java-17-openjdk-headless | brew install openjdk@17"


def version() -> str | None:
    """Return the version on PATH, such as `17.0.15`; None when there is none that runs."""
    try:
        done = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return found.group(1) if found else None


def fits(found: str | None) -> bool:
    """Return whether a version is new enough."""
    return found is not None and int(re.split(r"[.\-+_]", found)[0]) >= NEEDED


def require() -> None:
    """Return if a new enough Java is there.

    Raises:
        CutoverError: It is not.
    """
    found = version()
    if not fits(found):
        msg = f"Java: expected {NEEDED} or newer on PATH, got {found or 'none'}.\nHint: {HINT}"
        raise CutoverError(msg)
