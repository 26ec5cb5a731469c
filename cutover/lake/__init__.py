"""The lake: where its tables are, and how they are read and committed without a JVM.

`tables` are Delta tables as such; `epochs` reads the stream's, `batch_runs` batch's, `journal` and `control` the
installation's own, `dimensions` those that records are joined with. `integrity` detects damage; `serving` has what
readers see.
"""
