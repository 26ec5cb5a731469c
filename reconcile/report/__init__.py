"""The report: one comparison as a page that needs no network.

`page` renders it with `drawings` and `steps`; `files` has its other formats and their place, and
`sections` computes what it shows in addition to the verdict.
"""
