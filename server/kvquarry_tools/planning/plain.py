"""The report as scripts read it: JSON's types, names with units."""

from dataclasses import asdict

from kvquarry_core.work import Work
from kvquarry_tools.planning.report import Capacity, Report

Plain = dict[str, object]


def plain_report(report: Report) -> Plain:
    """Everything ``kvquarry plan --json`` shows."""
    served = report.served
    return {
        "model": {
            "name": served.model.name,
            "architecture": served.model.architecture,
            "notes": list(served.model.notes),
            "work": plain_work(served.model.work),
        },
        "serving": asdict(served.serving),
        "memory_bytes": report.memory_bytes,
        "bytes_per_token": served.bytes_per_token,
        "checkpoint_bytes": served.checkpoint_bytes,
        "kvquarry": _mixed(report),
        "stock_vllm": _uniform(report),
        "max_num_seqs": _sequences(report),
    }


def plain_work(work: Work | None) -> Plain | None:
    """What a model computes; null: its configuration does not say."""
    return None if work is None else asdict(work)


def _mixed(report: Report) -> Plain:
    plan = report.mixed.plan
    return {
        "slab_bytes": plan.slab_bytes * plan.num_regions,
        "num_slabs": plan.num_slabs,
        "left_over_bytes": report.left_over_bytes,
        "classes": [asdict(one) for one in report.classes],
        "capacity": _capacity(report.mixed_capacity),
    }


def _uniform(report: Report) -> Plain:
    layout = report.uniform.layout
    return {
        "block_tokens": layout.block_tokens,
        "block_bytes": layout.block_bytes,
        "num_blocks": report.uniform.num_blocks,
        "num_groups": len(layout.groups),
        "state_padding": layout.state_padding,
        "capacity": _capacity(report.uniform_capacity),
    }


def _capacity(capacity: Capacity) -> Plain:
    return {
        "hit_step_tokens": capacity.hit_step_tokens,
        "requests": [
            {"tokens": num_tokens, "requests": number}
            for num_tokens, number in capacity.requests.items()
        ],
        "longest_request_tokens": capacity.longest_request_tokens,
        "cached": [
            {"checkpoint_tokens": apart, "tokens": num_tokens}
            for apart, num_tokens in capacity.cached_tokens.items()
        ],
        "max_num_seqs": capacity.max_num_seqs,
    }


def _sequences(report: Report) -> Plain | None:
    limit = report.sequences
    return None if limit is None else {"fits": limit.fits, **asdict(limit)}
