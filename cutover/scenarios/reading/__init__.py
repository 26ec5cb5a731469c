"""From the text of a scenario file to the setting of a runner.

`parse` reads JSON into `forms` with scalar `texts`, and `setting` converts it.
"""
