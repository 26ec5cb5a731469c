"""Programs that Cutover is compared with; each function is the obvious way to write one."""
