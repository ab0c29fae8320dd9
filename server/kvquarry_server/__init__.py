"""The service: pools over gRPC, their lives and leases, telemetry and the command line.

Read downward from :mod:`kvquarry_server.cli`; a request's way is servicer, conversion, registry,
attachment, core, and back.
"""
