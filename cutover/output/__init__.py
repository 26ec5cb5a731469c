"""Output for people.

`console` prints the `Output` of a command, `terminal` separates it from that of engines, `cells` writes CSV, and `svg`
draws.
"""
