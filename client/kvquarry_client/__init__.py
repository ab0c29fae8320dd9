"""The client: an engine's side of a pool.

Read downward from :mod:`kvquarry_client.shadow`. Needs grpcio and protobuf only;
:mod:`kvquarry_client.views` and :mod:`kvquarry_client.kernel_blocks` need torch.
"""
