"""What the served model computes, for policies that weigh cached content by the work it saves.

vLLM's own count (``vllm.v1.metrics.perf``) takes every layer of a hybrid for attention, and a
recurrent layer's checkpoint is just what is weighed. So the configuration is read as ``kvquarry
plan`` reads it.
"""

from typing import Any

from kvquarry_core.work import Work
from kvquarry_tools.errors import InvalidInput
from kvquarry_tools.models import read_model
from kvquarry_vllm.log import logger


def model_work(model_config: Any) -> Work | None:
    """Floating-point operations of all workers together; None: the configuration does not say.

    The pool counts tokens then, so nothing of a model that is not known here may stop an engine.
    """
    try:
        work = read_model(model_config.model, model_config.hf_config.to_dict()).work
    except InvalidInput as error:
        logger.info("tokens stand for the work that cached content saves: %s", error)
        return None
    if work is None:
        logger.info("tokens stand for the work that cached content saves: sizes are missing")
    return work
