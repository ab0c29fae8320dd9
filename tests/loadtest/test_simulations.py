"""The simulated benchmarks run and print what they promise."""

import json

import pytest

from loadtest import churn, policies


def test_churn_runs_every_pool_on_every_seed(capsys: pytest.CaptureFixture[str]) -> None:
    pools = "affinity,first-fit+evacuate,uniform,oracle"
    churn.main(["--pools", pools, "--seeds", "1,2", "--steps", "20", "--json"])
    results = json.loads(capsys.readouterr().out)["results"]
    assert [(one["pool"], one["seed"]) for one in results] == [
        (pool, seed) for pool in pools.split(",") for seed in (1, 2)
    ]
    assert all(0 < one["utilisation"][-1] < 1 for one in results)


def test_churn_prints_a_mean_for_each_pool(capsys: pytest.CaptureFixture[str]) -> None:
    churn.main(["--pools", "static,static-even", "--seeds", "1", "--steps", "20"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [
        ["static", "1"],
        ["static", "mean"],
        ["static-even", "1"],
        ["static-even", "mean"],
    ]


def test_churn_says_what_it_cannot_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        churn.main(["--pools", "uniform", "--seeds", "1", "--steps", "3"])
    assert "--steps 3 is too small" in capsys.readouterr().err


def test_policies_are_compared_on_every_model_and_memory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    models = ["Qwen3.6-35B-A3B", "Kimi-Linear-48B-A3B"]
    policies.main(
        ["--models", *models, "--gib", "20", "--first", "12", "--block-size", "512", "--json"]
    )
    results = json.loads(capsys.readouterr().out)["results"]
    pools = {one["pool"] for one in results}
    assert {(one["model"], one["pool"]) for one in results} == {
        (model, pool) for model in models for pool in pools
    }
    assert {"lru", "slab-aware", "saved-work", "uniform (stock vLLM)", "Belady"} <= pools
