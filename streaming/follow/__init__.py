"""Following a team's own query: its micro-batches are repeated as epochs, with its offsets and its watermarks.

`follower` reads what `cutover.positions.followed_job` has archived, and runs each batch through the engine of the
streaming path. The epoch log then holds what the definition says about the records that the job has read: which ones
were late for it, and what its table should contain.
"""
