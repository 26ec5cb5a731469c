"""Results that the stream showed while windows could still change, compared with later ones. No verdict.

`answers` evaluates them by age, also of windows that are open at the cut; `settlement` says when windows are complete.
"""
