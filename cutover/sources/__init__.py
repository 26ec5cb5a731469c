"""Tables that Cutover did not make: files, folders of other formats, servers and catalogs, each at one pinned state.

`binding` makes a view of a table for `cutover diff` and for foreign sides of a pipeline. Files are listed by
`file_listing`, which reads the log of Spark's file sink, and read by `reading`, CSV with `csv_encoding` and
`csv_dialect`. `iceberg` opens a snapshot; `postgres` and `databases` copy the selection of columns and rows that is
compared, in batches of Arrow, to a private file of `staging`. `addresses` keeps passwords out of all that is shown.
"""
