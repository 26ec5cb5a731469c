"""The real streaming path in tables that are not served.

`runner` runs scenarios, with clock and watermark from a script; `repeated` runs committed epochs again, in a scratch
folder.
"""
