"""Output for people: escaped text and CSV cells, SVG drawings, the terminal."""
