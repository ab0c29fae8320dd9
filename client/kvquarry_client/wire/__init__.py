"""Between the core's values and the wire's messages: the client's half.

Nowhere else in the client are a message's fields touched.
"""
