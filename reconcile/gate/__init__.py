"""The gate: which path people are served from. It moves on evidence, and back at any time.

`evidence` reads what is needed (`hazards`), `decide` is pure, over `criteria`, and `gate_values` are its
input and output. `stage` moves and records, on an approval and after a check of the present.
"""
