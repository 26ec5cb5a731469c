"""Programs that Cutover is compared with; each file is the obvious way to write one."""
