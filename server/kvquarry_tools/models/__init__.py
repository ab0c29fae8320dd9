"""Model configurations, and the cache groups that vLLM makes of them."""
