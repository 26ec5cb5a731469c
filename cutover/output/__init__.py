"""Output for people.

`console` prints the `Output` of a command, with data escaped by `markup`; `terminal` separates it from that of engines,
`cells` writes CSV, and `svg` draws.
"""
