"""The plug-in's log lines, among vLLM's own: a logger outside ``vllm.`` would be silent."""

from vllm.logger import init_logger

logger = init_logger("vllm.kvquarry")
