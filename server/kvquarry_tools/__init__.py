"""What users run before they install anything: what a pool would hold for a model of theirs.

Standard library and :mod:`kvquarry_core` alone, so that every figure is the one that a running
service would use. :mod:`kvquarry_tools.models` turns a model's configuration into cache groups;
:mod:`kvquarry_tools.planning` and :mod:`kvquarry_tools.simulation` stand on it.
"""
