"""Requests of a trace, run on the real core as an engine would run them."""
