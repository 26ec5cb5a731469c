"""Execution of a fault: its child process, its rig, its line, its proof."""
