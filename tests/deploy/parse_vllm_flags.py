"""Run alone: prints what `vllm serve` makes of its flags, as JSON in the last line."""

import argparse
import json
import sys

from vllm.entrypoints.cli.serve import ServeSubcommand


def main() -> None:
    commands = argparse.ArgumentParser().add_subparsers()
    parser = ServeSubcommand().subparser_init(commands)
    arguments = parser.parse_args(sys.argv[1:])
    names = ("model_tag", "mamba_cache_mode", "shutdown_timeout", "tensor_parallel_size")
    print(json.dumps({name: getattr(arguments, name) for name in names}))


if __name__ == "__main__":
    main()
