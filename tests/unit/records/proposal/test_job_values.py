"""Columns that only `from_json` reads: money as text, and times in further forms of ISO 8601."""

from typing import Any

import pytest

from cutover.definition.loading.source import load_text
