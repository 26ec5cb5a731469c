"""What is no verdict: logs, seals, settings and files that do not bear one."""
