"""The report: one comparison as a page that needs no network.

`page` renders it with `drawings`, `tree`, `verdicts` and `steps`; `forms` are its other formats, `files`
their place.
"""
