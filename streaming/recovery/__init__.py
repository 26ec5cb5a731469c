"""Going on after a loss, and going back to an earlier epoch."""
