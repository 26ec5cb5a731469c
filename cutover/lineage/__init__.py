"""OpenLineage events of both paths and of comparisons, with input offsets and table versions, and outputs.

Disabled unless the settings contain a file or a URL. Failures are logged and never fail a run.
"""
