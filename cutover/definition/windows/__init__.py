"""Windows: where in event time records are aggregated.

Each kind of window is a `WindowFn` in a separate module and a line in `kinds`; calendar kinds share `calendar`.
"""
