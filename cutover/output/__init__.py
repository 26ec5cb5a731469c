"""Output for people.

`console` prints the `Output` of a command, with data escaped by `cells`; `terminal` separates it from that of engines,
`cells` also writes CSV, and `svg` draws.
"""
