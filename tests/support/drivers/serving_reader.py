"""A process that reads a serving table in a loop, as a dashboard does, until its standard input ends.

python -m tests.support.drivers.serving_reader TABLE writes a line of JSON a look: version, who serves, rows.
"""

import json
import select
import sys

from deltalake import DeltaTable


def main() -> None:
    """Read, say what was seen, read again."""
    while not select.select([sys.stdin], [], [], 0)[0]:
        table = DeltaTable(sys.argv[1])
        rows = table.to_pyarrow_table(columns=["_served_by", "window_start"])
        served_by = sorted(set(map(str, rows["_served_by"].to_pylist())))
        sys.stdout.write(json.dumps([table.version(), served_by, rows.num_rows]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
