"""Epochs whose partial aggregates share a row: after a fold, in a fork, and in adopted files."""

import re
from collections.abc import Sequence

from deltalake import DeltaTable

from cutover.lake.epochs.row_kinds import RowKind
from cutover.lake.tables import delta

SPAN = re.compile(r"/(fold|fork|adopted)-(\d+)-(\d+)-w")
"""Part of the path of a file whose rows may belong to any epoch from the first to the second number."""

Span = tuple[int, int]  # first and last epoch


def list_merged_spans(table: DeltaTable) -> list[Span]:
    """List the spans of epochs that were merged into files with partial aggregates, by the files' names."""
    partials = (action for action in delta.actions(table) if str(action["partition._kind"]) == RowKind.PARTIAL)
    matches = (SPAN.search(str(partial["path"])) for partial in partials)
    return sorted({(int(match[2]), int(match[3])) for match in matches if match})


def find_span(spans: Sequence[Span], epoch: int) -> Span:
    """Find the first and the last epoch to which a row with an epoch's number may belong."""
    containing = [span for span in spans if span[0] <= epoch <= span[1]]
    return (min((start for start, _ in containing), default=epoch), max((end for _, end in containing), default=epoch))
