"""The one script of a report, and the policy that lets a browser run it and no other: named by its digest.

Source: W3C, Content Security Policy Level 3, section 2.3.1 (`hash-source`).
"""

import base64
import hashlib
from functools import cache
from pathlib import Path

_FILE = Path(__file__).parent / "templates" / "filter.js"


@cache
def read_script() -> str:
    """Return what stands between the tags: it reads the page's own text, and writes none of it as markup."""
    return _FILE.read_text(encoding="utf-8")


@cache
def make_report_policy() -> str:
    """Return the Content-Security-Policy of a report: no request of any kind, inline styles, this script alone."""
    digest = base64.b64encode(hashlib.sha256(read_script().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
