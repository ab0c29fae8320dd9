"""The service's status as people read it."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

# A status as `conversion.statuses.plain` gives it: the wire's names, JSON's types.
PlainStatus = dict[str, Any]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_FLOP_UNITS = ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP")


def status_table(status: PlainStatus) -> str:
    """Everything ``kvquarry status`` shows."""
    return "\n".join(_lines(status))


def pin_table(pins: PlainStatus) -> str:
    """Everything ``kvquarry pins`` shows."""
    if not pins["pins"]:
        return "nothing is pinned"
    head = ("engine", "pin", "tokens", "holds", "ends in")
    rows = (
        (
            pin["engine"],
            pin["pin_id"],
            str(pin["token_count"]),
            _size(pin["size_bytes"]),
            _duration(pin["remaining_seconds"]),
        )
        for pin in pins["pins"]
    )
    return "\n".join(_aligned(itertools.chain((head,), rows)))


def _lines(status: PlainStatus) -> Iterator[str]:
    num_pools = len(status["pools"])
    yield (
        f"kvquarry {status['version']}, up {_duration(status['uptime_seconds'])}, "
        f"{num_pools} {'pool' if num_pools == 1 else 'pools'}, boot {status['boot_id']}"
    )
    for pool in status["pools"]:
        yield ""
        yield from _pool_lines(pool)


def _pool_lines(pool: PlainStatus) -> Iterator[str]:
    usage, counters = pool["usage"], pool["counters"]
    for attachment in pool["attachments"]:
        yield f"engine {_attachment(attachment)}"
    yield f"  pool      {pool['pool_id']}  {pool['model']}".rstrip()
    if any(pool["policies"].values()):
        yield f"  policies  {_policies(pool)}"
    yield f"  workers   {_workers(pool)}"
    yield (
        f"  memory    {_size(usage['used_size_bytes'])} used of "
        f"{_size(usage['usable_size_bytes'])}, {usage['unassigned_slab_count']} of "
        f"{pool['plan']['slab_count']} slabs unassigned"
    )
    if pool["empty_slot_counts"]:
        yield f"  written   {_written(pool)}"
    query, hit = counters["query_tokens"], counters["hit_tokens"]
    share = f" ({hit / query:.1%})" if query else ""
    yield f"  tokens    {query} looked up: {hit} hit{share}, {query - hit} missed"
    yield (
        f"  requests  {pool['request_count']} now, {counters['admission_count']} admitted, "
        f"{_times(counters['refusal_count'])} made to wait for blocks"
    )
    if pool["policies"]["relocation"] not in {"", "off"}:
        yield f"  moves     {_moves(pool)}"
    if any(pool["work"].values()):
        yield f"  work      {_work(pool['work'])}"
    if pool["pin_count"] or counters["refused_pin_count"] or counters["broken_pin_count"]:
        yield f"  pins      {_pins(pool)}"
    yield ""
    yield from (f"  {line}" for line in _aligned(_class_rows(pool)))


def _policies(pool: PlainStatus) -> str:
    """By kind; a service from before there was a kind says nothing of it."""
    return ", ".join(f"{kind} {name}" for kind, name in pool["policies"].items() if name)


def _moves(pool: PlainStatus) -> str:
    """Blocks of any class, and how much was copied for them."""
    plan, counts = pool["plan"], pool["counters"]["move_counts"]
    moved_bytes = sum(
        count * plan["size_classes"][index]["stride_bytes"] * plan["region_count"]
        for index, count in enumerate(counts)
    )
    return f"{sum(counts)} blocks so far, {_size(moved_bytes)}"


def _work(work: PlainStatus) -> str:
    a_token, a_pair = work["token_flops"], work["token_pair_flops"]
    return f"{_flops(a_token)} a token + {_flops(a_pair)} per earlier token"


def _pins(pool: PlainStatus) -> str:
    counters = pool["counters"]
    return (
        f"{pool['pin_count']} hold {_size(pool['pinned_size_bytes'])} of at most "
        f"{_size(pool['pin_cap_size_bytes'])}; {counters['refused_pin_count']} were refused, "
        f"{counters['broken_pin_count']} gave way"
    )


def _written(pool: PlainStatus) -> str:
    written, used = pool["written_size_bytes"], pool["usage"]["used_size_bytes"]
    share = f" ({written / used:.1%} of what is used)" if used else ""
    return f"{_size(written)}{share}, {sum(pool['empty_slot_counts'])} token slots are empty"


def _attachment(attachment: PlainStatus) -> str:
    if attachment["attached"]:
        state = "attached"
    else:
        state = f"not attached, dropped in {_duration(attachment['lease_remaining_seconds'])}"
    return f"{attachment['engine']}, incarnation {attachment['incarnation']}, {state}"


def _workers(pool: PlainStatus) -> str:
    devices = ", ".join(f"{worker['rank']}: {worker['device']}" for worker in pool["workers"])
    text = f"{len(pool['workers'])} of {pool['worker_count']} registered"
    return f"{text} ({devices})" if devices else text


def _class_rows(pool: PlainStatus) -> Iterator[Sequence[str]]:
    yield ("class", "block", "groups", "free", "active", "cached", "granted", "evicted")
    plan, evictions = pool["plan"], pool["counters"]["eviction_counts"]
    for index, usage in enumerate(pool["usage"]["size_classes"]):
        size_bytes = plan["size_classes"][index]["stride_bytes"] * plan["region_count"]
        counts = [
            usage["free_block_count"],
            usage["active_block_count"],
            usage["cached_block_count"],
            usage["granted_block_count"],
        ]
        num_groups = plan["class_of_group"].count(index)
        yield (
            str(index),
            _size(size_bytes),
            str(num_groups),
            *(str(count) for count in counts),
            str(evictions[index]),
        )


def _aligned(rows: Iterator[Sequence[str]]) -> Iterator[str]:
    """Columns flush right, as wide as their widest entry."""
    table = list(rows)
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        yield "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))


def _size(num_bytes: int) -> str:
    size = float(num_bytes)
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_UNITS[-1]}"


def _flops(flops: float) -> str:
    """In three digits: ``3.50 MFLOP``."""
    for unit in _FLOP_UNITS[:-1]:
        if flops < 999.5:
            return f"{_three_digits(flops)} {unit}"
        flops /= 1000
    return f"{_three_digits(flops)} {_FLOP_UNITS[-1]}"


def _three_digits(number: float) -> str:
    return f"{number:.{2 if number < 9.995 else 1 if number < 99.95 else 0}f}"


def _times(number: int) -> str:
    return "1 time" if number == 1 else f"{number} times"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
