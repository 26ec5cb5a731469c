"""Results of the figures: values, goals, the machine, the page and its plots."""
