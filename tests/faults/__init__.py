"""Faults caused on purpose: faults are values, one test runs them all, a table lists what was proven.

How to add one. A module of `catalogue/` has `FAULTS`, a tuple of `Fault`. `inject(rig)` causes the failure and keeps as
evidence what the outside saw of it (`rig.note`): wait statuses, process states, offsets, hashes, table versions.
`happened(rig)` reads that evidence alone; False is an error. Then the alerts seen must be exactly the named ones,
the process that had to stop (`rig.expect_end(child)`, `rig.refused(act)`) has the named exit code, `heal(rig)` removes
the failure, `settle(rig)` drains the stream, computes the batch and compares, `cutover verify` runs with the oracle,
and each function of `holds` yields a sentence for whatever does not hold.

What a rig has. `rig.send(rig.draw(n, late=0.1))` sends the seed's next events and keeps what became of them;
`rig.start(block=("epoch.aggregated", 2))` is a driver in a separate process group that stops inside that point
(`marker`, `kill`, `pause`, `resume`, `release`, `wait`, `points`, `events`), `role="batch"` or `"reconcile"` the other
paths; `rig.background()` is a driver in a thread, `rig.drain()`, `rig.batch()`, `rig.reconcile()`, `rig.verify()` run
here, on the session's Spark: children are for what has to die. `rig.define(cap=.., lateness=..)` and
`rig.tune(overflow_rows=..)` change definition and settings; `rig.second_home()` is another installation on the same
lake, `rig.add_installation(name)` one with another lake on the same topic. `Part.BROKER` in `needs` gives the fault a
separate broker: `rig.broker.kill()`, `.start()`, `.pause()`, `.resume()`.

A fault that needs no log has `needs=frozenset({Part.LAKE})`, its own `settle`, and lists in `verdicts` and `checks`
what remains to be checked. `quick` ones run in `make test`, all of them in `make faults`.
"""
