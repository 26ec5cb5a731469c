"""How the error of a window shrinks as it ages: the share of its records that were still missing, by event time.

A window's age is how far the slowest partition's newest event time is beyond its end. Until a window closes its answer
still changes, and a comparison does not see how; from then on what it misses are its late records, which the ledger
holds with the epoch that read them.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from cutover.definition.model.pipeline import Pipeline
from cutover.quoting import identifier
from cutover.reconcile.comparison.shared_tables import SharedTable, stage
from cutover.reconcile.comparison.sides import Sides
from cutover.reconcile.result.outcome import Settlement, SettlementPoint
from cutover.reconcile.result.rates import rate
from cutover.records.classes import Class
from cutover.records.closing import grace

SETTLED_ERROR, SETTLED_SHARE = 1e-3, 0.99
"""A number can be trusted from the age on at which 99 % of the windows miss at most one record in a thousand."""

_MINUTE = 60_000_000
AGES = tuple(_MINUTE * minutes for minutes in (1, 5, 15, 30, 60, 120, 240, 480, 720, 1440, 2880, 7200, 14_400, 43_200))


def measure(sides: Sides, pipeline: Pipeline) -> Settlement | None:
    """Return the curve from the closing of windows on; None where no window was compared.

    Args:
        sides: Open sides whose ledger was made.
        pipeline: The definition.
    """
    closes = pipeline.lateness.out_of_orderness_micros + grace(pipeline)
    ages = [closes, *(age for age in AGES if age > closes)]
    names = [identifier(name) for name in (sides.layout.place if pipeline.window.merges else sides.layout.place[:1])]
    place, same = ", ".join(names), " AND ".join(f"m.{name} IS NOT DISTINCT FROM e.{name}" for name in names)
    ahead = pipeline.lateness.out_of_orderness_micros
    # A key's columns may have any name, but none with `__`.
    query = f"""
        WITH whole AS (SELECT {place}, sum(_n) AS __records FROM {stage(1)} GROUP BY ALL),
        late AS (SELECT {place}, w.watermark + {ahead} - epoch_us(l.window_end) AS __age FROM {SharedTable.LEDGER} l
                 JOIN {SharedTable.EPOCH_WATERMARKS} w ON w.epoch = l._epoch WHERE l._class = '{Class.LATE}'),
        missed AS (SELECT {place}, __of, count(*) AS __late FROM late, unnest({ages}::BIGINT[]) a(__of)
                   WHERE __age >= __of GROUP BY ALL),
        every AS (SELECT * FROM whole, unnest({ages}::BIGINT[]) a(__of)),
        error AS (SELECT e.__of, coalesce(m.__late, 0) / e.__records AS __error FROM every e
                  LEFT JOIN missed m ON m.__of = e.__of AND {same})
        SELECT __of, quantile_disc(__error, [0.5, 0.9, 0.99]), max(__error), count(*),
               count(*) FILTER (__error <= {SETTLED_ERROR}) FROM error GROUP BY __of ORDER BY __of
    """
    found = sides.connection.execute(query).fetchall()
    if not found:
        return None
    points = tuple(
        SettlementPoint(minutes=age / _MINUTE, p50=float(p50), p90=float(p90), p99=float(p99), largest=float(largest))
        for age, (p50, p90, p99), largest, _, _ in found
    )
    good = [row for row in found if row[4] >= SETTLED_SHARE * row[3]]
    chosen = good[0] if good else found[-1]
    return Settlement(
        points=_end_at_zero(points),
        settled_minutes=chosen[0] / _MINUTE if good else None,
        settled=rate(int(chosen[4]), int(chosen[3])),
    )


def _end_at_zero(points: tuple[SettlementPoint, ...]) -> tuple[SettlementPoint, ...]:
    """Return the curve up to the first age at which no window misses anything."""
    end = next((number for number, point in enumerate(points, 1) if not point.largest), len(points))
    return points[:end]
