"""A demonstration on a real engine: prefix hits and outputs, stock vLLM against kvquarry."""
