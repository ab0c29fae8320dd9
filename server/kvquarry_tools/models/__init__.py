"""Model configurations, and the cache groups that vLLM makes of them.

Read downward: :func:`find_model` finds a configuration and has its family read the layers;
:class:`Model` is told how it is served and answers with the groups of a mixed-size pool, and with
the uniform pool that stock vLLM would make.
"""

from kvquarry_tools.models.library import find_model, known_models, read_model
from kvquarry_tools.models.model import Model, ServedModel
from kvquarry_tools.models.serving import Serving
from kvquarry_tools.models.stock import StockLayout

__all__ = [
    "Model",
    "ServedModel",
    "Serving",
    "StockLayout",
    "find_model",
    "known_models",
    "read_model",
]
