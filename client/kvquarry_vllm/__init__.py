"""The vLLM plug-in: the only place that imports vllm.

Read downward from :mod:`kvquarry_vllm.plugin`. Planning (:mod:`scope <kvquarry_vllm.scope>`,
:mod:`grouping <kvquarry_vllm.grouping>`, :mod:`config <kvquarry_vllm.config>`,
:mod:`capacity <kvquarry_vllm.capacity>`) knows vLLM's data classes; the names of vLLM that are
replaced, and what they look like in each version, stand in :mod:`kvquarry_vllm.gates` alone.
"""
