"""Audit in KAPPA: a random sample of final windows, recomputed from the log and compared.

`population` draws the sample, `audit_sample` computes and records.
"""
