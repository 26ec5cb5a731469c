"""The epoch log as its readers see it.

`epoch_log` has the records and rows of epochs, `offsets` where each begins and whether any is missing,
`delivery` which were delivered twice or never. `read_speed` measures how fast they were read.
"""
