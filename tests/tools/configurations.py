"""Configurations of models, as small as they can be."""

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "torch_dtype": "bfloat16",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
}
