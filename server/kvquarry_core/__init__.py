"""The accounting of KV-cache pools: pure, synchronous, no I/O.

One owner calls a pool, so every call is atomic without locks. Read downward from
:mod:`kvquarry_core.pool`.
"""
