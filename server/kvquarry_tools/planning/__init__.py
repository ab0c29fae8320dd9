"""What one pool holds for a model, beside the uniform pool that stock vLLM would make."""
