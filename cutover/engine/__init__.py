"""Engines, Spark and DuckDB.

`spark` and `queries` make sessions and connections, `storage` the confs of object stores. `readback` reads the settings
and the code in force in a process; `effective_settings` compares them. `usage` measures what a process has used.
"""
