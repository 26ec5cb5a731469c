"""Watching a running pipeline: lag, watermark, and the alerts that fire now.

`collector` reads the facts of one moment from tables, log, heartbeat and disks (`ages`, `findings`) into one frozen
value (`facts`). Everything after that is pure: `alerts` evaluates a list of specs, and `status` evaluates stream and
watermark and combines both into what `cutover watch` shows and exports as metrics. No consumer group is used, and
no table changes.
"""
