"""How much of a pool holds content after thousands of steps at its limit.

Fragmentation keeps growing long after the first shortage, so that is what is measured: the bytes
really needed by the running requests, as a share of the pool, in the last quarter of a long run.
"""
