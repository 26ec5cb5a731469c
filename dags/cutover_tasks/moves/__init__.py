"""Tasks that change what readers get: a stage on, a stage back, another definition, and the words of an approval."""
