"""The ``kvquarry`` command."""

import argparse
import asyncio
import json
import os
import re
import sys
from collections.abc import Sequence

from kvquarry_core.errors import UsageError
from kvquarry_server import settings
from kvquarry_server.addresses import InvalidAddress
from kvquarry_server.failures import CommandFailed
from kvquarry_server.polling import prefer_fewer_threads
from kvquarry_server.status_table import pin_table, status_table
from kvquarry_server.version import package_version
from kvquarry_tools.errors import InvalidInput
from kvquarry_tools.planning.flags import add_plan_flags
from kvquarry_tools.simulation.flags import add_simulate_flags

_FAILED = 1
_MISUSED = 2


class MissingExtra(CommandFailed):
    """What a command needs was not installed; the message says how it is."""


class NoSuchPin(CommandFailed):
    """Some of the pins that were named are not there, or their engine is not."""


class DoesNotFit(CommandFailed):
    """What was wished of a plan does not fit into its memory."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 failed, 2 misused."""
    arguments = _parsed(argv)
    commands = {
        "pins": _pins,
        "plan": _plan,
        "serve": _serve,
        "simulate": _simulate,
        "status": _status,
        "unpin": _unpin,
        "version": _version,
    }
    try:
        commands[arguments.command](arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Who reads has seen enough. Python would complain once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except CommandFailed as error:
        print(f"kvquarry: {error}", file=sys.stderr)
        return _FAILED
    except (InvalidAddress, InvalidInput, UsageError) as error:
        print(f"kvquarry: {error}", file=sys.stderr)
        return _MISUSED
    return 0


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments; for a flag that a command lacks, that command's usage is shown."""
    arguments, unknown = command_parser().parse_known_args(
        _with_values_below_zero(sys.argv[1:] if argv is None else argv)
    )
    if unknown:
        arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return arguments


def _with_values_below_zero(argv: Sequence[str]) -> list[str]:
    """``--memory -1GiB`` as one word: argparse takes the amount for a flag and misses a value."""
    words: list[str] = []
    for word in argv:
        if re.match(r"-\d", word) and words and re.fullmatch(r"--[a-z-]+", words[-1]):
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words


def command_parser() -> argparse.ArgumentParser:
    """What may be typed."""
    parser = argparse.ArgumentParser(prog="kvquarry", description="KV-cache memory as a service.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve_parser = commands.add_parser(
        "serve",
        help="serve pools to engines",
        description="Serve pools to engines until SIGTERM. Each flag has a variable and a default, "
        "in brackets behind it.",
    )
    settings.add_serve_flags(serve_parser)
    status_parser = commands.add_parser(
        "status",
        help="show what a running service holds",
        description="Show a running service's pools, engines, workers, blocks and tokens.",
    )
    settings.add_status_flags(status_parser)
    settings.add_status_flags(
        commands.add_parser(
            "pins",
            help="show what is pinned in a running service",
            description="Show the prefixes that are kept from being evicted, and for how long.",
        )
    )
    settings.add_unpin_flags(
        commands.add_parser(
            "unpin",
            help="end pins of a running service",
            description="End pins before their time; what they held stays cached until memory is "
            "needed.",
        )
    )
    add_plan_flags(
        commands.add_parser(
            "plan",
            help="show what a pool would hold for a model",
            description="Show what so much memory holds for a model, in kvquarry's pool and in "
            "stock vLLM's. Needs no vLLM, no GPU and no weights.",
        )
    )
    add_simulate_flags(
        commands.add_parser(
            "simulate",
            help="show what a pool would do for a model under a trace of requests",
            description="Replay requests on the accounting that the service runs, and show hits, "
            "evictions, fragmentation and preemptions. Needs no vLLM, no GPU and no weights.",
        )
    )
    commands.add_parser("version", help="show which kvquarry this is")
    for command in commands.choices.values():
        command.set_defaults(parser=command)
    return parser


def _serve(arguments: argparse.Namespace) -> None:
    serve_settings = settings.serve_settings(arguments)
    prefer_fewer_threads()
    try:
        # Who plans or looks has not installed what serves.
        from kvquarry_server import serving  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"serve needs {error.name}, which comes with the extra `server`: install "
            "kvquarry[server], or '.[server]' in its source tree"
        ) from error
    serving.log_to_stderr(serve_settings.log_level)
    asyncio.run(serving.serve(serve_settings))


def _status(arguments: argparse.Namespace) -> None:
    # gRPC takes a fraction of a second to import, and whoever serves says how before.
    from kvquarry_server.querying import fetch_status  # noqa: PLC0415

    status_settings = settings.status_settings(arguments)
    status = fetch_status(status_settings)
    print(json.dumps(status, indent=2) if status_settings.is_json else status_table(status))


def _pins(arguments: argparse.Namespace) -> None:
    from kvquarry_server.querying import fetch_pins  # noqa: PLC0415

    status_settings = settings.status_settings(arguments)
    pins = fetch_pins(status_settings)
    print(json.dumps(pins, indent=2) if status_settings.is_json else pin_table(pins))


def _unpin(arguments: argparse.Namespace) -> None:
    from kvquarry_server.querying import unpin  # noqa: PLC0415

    unpin_settings = settings.unpin_settings(arguments)
    answer = unpin(unpin_settings)
    if answer.engine_missing:
        raise NoSuchPin(
            f"there is no engine {unpin_settings.engine!r}; `kvquarry status` shows those there are"
        )
    if answer.ended_count:
        print(f"{answer.ended_count} {'pin' if answer.ended_count == 1 else 'pins'} ended")
    # A service from before it named what is missing says only that nothing ended.
    missing = answer.missing_pin_ids or (() if answer.ended_count else unpin_settings.pin_ids)
    if missing:
        names = " or ".join(map(repr, missing))
        raise NoSuchPin(f"there is no pin {names}; `kvquarry pins` shows those there are")


def _plan(arguments: argparse.Namespace) -> None:
    # Who serves does not need the tools, and who plans may wait for them.
    from kvquarry_tools.planning.command import run_plan  # noqa: PLC0415

    answer = run_plan(arguments)
    print(answer.text)
    if not answer.fits:
        raise DoesNotFit(
            f"--max-num-seqs {arguments.max_num_seqs} does not fit; the plan says what to change"
        )


def _simulate(arguments: argparse.Namespace) -> None:
    from kvquarry_tools.simulation.command import run_simulate  # noqa: PLC0415

    print(run_simulate(arguments))


def _version(_: argparse.Namespace) -> None:
    print(f"kvquarry {package_version()}")
