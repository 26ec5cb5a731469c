"""How a fault is run: its child process, its rig, its line, its proof."""
