"""OpenLineage events of both paths and of comparisons: which offsets and table versions went in, and what came out.

Off unless the settings name a file or an address. None of it ends a run.
"""
