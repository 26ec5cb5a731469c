"""Reader of the folded result, in a separate process, which prints its totals as JSON.

python -m benchmarks.many_keys.reader --home HOME --bootstrap HOST:PORT --epoch-rows N
"""

import argparse
import json
import time
from pathlib import Path

from benchmarks.many_keys.driver import pipeline, settings_of
from cutover.lake.serving import views
from cutover.pipeline_lake import PipelineLake

QUERY = "SELECT count(*), sum(n)::BIGINT, sum(total)::BIGINT, sum(ids)::HUGEINT, max(worst) FROM serving"


def main() -> None:
    """Fold all windows and print the totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--epoch-rows", type=int, required=True)
    args = parser.parse_args()
    settings = settings_of(args.home, "127.0.0.1:1", 1)
    began = time.perf_counter()
    with views.open_views(PipelineLake(settings, pipeline(args.epoch_rows))) as connection:
        row = connection.execute(QUERY).fetchall()[0]
    names = ("rows", "n", "total", "ids", "worst")
    print(json.dumps(dict(zip(names, map(int, row), strict=True)) | {"seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
