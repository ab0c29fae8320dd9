"""``kvquarry serve``: a service and the signals that end it."""

import asyncio
import logging
import signal
import sys

from kvquarry_server.addresses import TcpAddress
from kvquarry_server.service import Service
from kvquarry_server.settings import ServeSettings

logger = logging.getLogger(__name__)

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


def log_to_stderr(level: str) -> None:
    """One line per event, ``key=value`` where there is something to look for."""
    logging.basicConfig(stream=sys.stderr, format=_LOG_FORMAT, level=level.upper())


async def serve(settings: ServeSettings) -> None:
    """Serve until SIGTERM or SIGINT, then drain; a second signal stops at once.

    Raises:
        CannotListen: An address cannot be bound.
        UsageError: A policy that was chosen is not to be had.
    """
    signals: asyncio.Queue[int] = asyncio.Queue()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, signals.put_nowait, number)
    _warn_of_open_doors(settings)
    service = Service(settings)
    try:
        await service.start()
        print(service.announcement, flush=True)
        await signals.get()
        await _drain_unless_told_again(service, signals)
    finally:
        await service.stop()


async def _drain_unless_told_again(service: Service, signals: asyncio.Queue[int]) -> None:
    drain = asyncio.create_task(service.drain())
    told_again = asyncio.create_task(signals.get())
    await asyncio.wait({drain, told_again}, return_when=asyncio.FIRST_COMPLETED)
    for task in (drain, told_again):
        task.cancel()
    await asyncio.gather(drain, told_again, return_exceptions=True)


def _warn_of_open_doors(settings: ServeSettings) -> None:
    for address in settings.listen:
        if isinstance(address, TcpAddress) and not address.is_loopback:
            logger.warning(
                "anyone who reaches %s can open pools: it is plain text without a password", address
            )
