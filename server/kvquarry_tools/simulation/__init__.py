"""Traces replayed through the real core."""
