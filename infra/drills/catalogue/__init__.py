"""All drills in the order in which they run: a module per subject of alerts.

A drill shares a pipeline with others unless it is isolated.
"""

from collections.abc import Mapping

from cutover.infra.drills.catalogue import inputs, jobs, lake, log, results, retirement
from cutover.infra.drills.drill import Drill

ALL = (*results.DRILLS, *lake.DRILLS, *inputs.DRILLS, *log.DRILLS, *jobs.DRILLS, *retirement.DRILLS)

DRILLS: Mapping[str, Drill] = {drill.name: drill for drill in ALL}
"""Drills by the name of their alert."""
