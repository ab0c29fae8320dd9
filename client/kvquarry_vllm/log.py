"""The plug-in's log lines, among vLLM's own: a logger outside ``vllm.`` would be silent."""

import logging

from vllm.logger import init_logger

logger = init_logger("vllm.kvquarry")

_CLIENT = "kvquarry_client"


class _AmongVllms(logging.Handler):
    """Hands lines on, so that they look and are filtered as vLLM is configured, also later on."""

    def emit(self, record: logging.LogRecord) -> None:
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)


def log_client_like_vllm() -> None:
    """Let the client's lines stand among vLLM's; called again, it changes nothing."""
    client_logger = logging.getLogger(_CLIENT)
    if client_logger.propagate:
        client_logger.addHandler(_AmongVllms())
        client_logger.setLevel(logging.DEBUG)
        client_logger.propagate = False
