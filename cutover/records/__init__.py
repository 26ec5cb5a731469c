"""From a record to a partial aggregate, and from partial aggregates to a result; shared by both paths.

`reading` reads the log, `parsing` its bytes; `enrich` adds lookups, `classify` assigns windows and classes with
`watermark`, `partials` aggregates, and `fold` merges. `reference` is the same in plain Python. For
files, `record_files` reads them, `proposal` drafts a definition, and `sending` writes their records to a topic.
"""
