"""Panes: which results of a window are emitted, and when, in plain Python; the oracle of every engine that emits panes.

`machine` has the state of a trigger, `held_windows` all windows of an operator, `model` the order of events.
`reference` has two runners: one over it, and one of a batch.
"""
