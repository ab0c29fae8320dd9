"""Tiny checkpoints of more families of models, and one process that runs stock and ours on one."""
