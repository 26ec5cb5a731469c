"""Recovery of a stream: continuing after a loss, and forking at an earlier epoch.

`accept_loss` records a loss, whose extent `loss_extent` computes; `fork` begins a new version at the earlier epoch.
"""
