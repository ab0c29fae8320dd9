"""Between the core's values and the wire's messages: the service's half.

Nowhere else in the service are a message's fields touched. Python counts ``num_*``, the wire
``*_count``; sizes in bytes are ``*_size_bytes`` there.
"""
