"""Faster depth-adaptive transformers, table 2: Amazon-16, as table 3."""

from ponderosa.reproduce.faster_dat_table_3 import jobs, outcome, prepare, shows_part

__all__ = ["jobs", "outcome", "prepare", "shows_part"]
