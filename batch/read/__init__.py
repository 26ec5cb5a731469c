"""Inputs of a run: records of the log, and the settings under which Spark classifies them.

`scan` reads new offsets once and joins dimensions; `index` records which offsets hold the records of each window, so
that a later run reads only these. `settings_in_force` rejects a run whose settings differ from those of the table.
"""
