"""Inputs of a run: records of the log.

`scan` reads new offsets once and joins dimensions; `index` records which offsets hold the records of each window, so
that a later run reads only these.
"""
