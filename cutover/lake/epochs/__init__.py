"""The epoch log as its readers see it.

`epoch_log` has the records and rows of epochs, `delivery` where each begins, whether any is missing, and which were
delivered twice or never. `read_speed` measures how fast they were read.
"""
