"""Faults that a test plants in an engine process, one module each, preloaded by an engine job.

They reach into vLLM's worker, so they act on stock vLLM and on kvquarry alike. Each is one way in
which a pool of aliased blocks could go wrong; a suite that stays green under one of them proves
nothing.
"""
