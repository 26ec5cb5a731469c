"""Panes on the stream.

`operator` evaluates the triggers of all windows at each epoch's end, over the `values` of partial aggregates; `rows`
stores panes and held windows in the epoch log, and sends panes to a topic.
"""
