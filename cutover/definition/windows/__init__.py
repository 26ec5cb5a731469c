"""Windows: where in event time records are aggregated.

Each kind of window is a `WindowFn` in a module of its own and a line in `kinds`; calendar kinds share `calendar`.
"""
