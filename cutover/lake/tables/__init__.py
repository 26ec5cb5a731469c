"""Delta tables without a JVM.

`delta` opens and reads a table, with the `schemas` of a definition; `delta_log` finds damage in its log.
`data_files` and `checksums` write files and remember which were checked, `commits` lists them and merges small ones.
"""
