"""Which epochs' partial aggregates lie in one row: those of folds, of a fork, of rows that were taken over."""

import re
from collections.abc import Sequence

from deltalake import DeltaTable

from cutover.lake.epochs.row_kinds import RowKind
from cutover.lake.tables import delta

SPAN = re.compile(r"/(fold|fork|adopted)-(\d+)-(\d+)-w")
"""In the path of a file: its rows may be of all epochs from the first to the second number."""

Span = tuple[int, int]  # first and last epoch


def list_merged_spans(table: DeltaTable) -> list[Span]:
    """Return the spans of epochs that files with partial aggregates were made from, by the files' names."""
    partials = (one for one in delta.actions(table) if str(one["partition._kind"]) == RowKind.PARTIAL)
    matches = (SPAN.search(str(partial["path"])) for partial in partials)
    return sorted({(int(match[2]), int(match[3])) for match in matches if match})


def find_span(spans: Sequence[Span], epoch: int) -> Span:
    """Return the first and the last epoch that a row with an epoch's number may be of."""
    around = [span for span in spans if span[0] <= epoch <= span[1]]
    return (min((one[0] for one in around), default=epoch), max((one[1] for one in around), default=epoch))
