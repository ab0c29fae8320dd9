"""What is hooked into each version of vLLM, and nothing else.

One file per version lists the hooks; the replacements they share stand in
:mod:`kvquarry_vllm.gates.replacements`. What every hooked or called name looked like when it was
read is recorded per version; :mod:`kvquarry_vllm.gates.check` compares.
"""
