"""deploy/prometheus/prometheus.yml, as it is and with other targets."""

from typing import Any

import yaml

from tests.architecture.repository import ROOT

CONFIG = ROOT / "deploy/prometheus/prometheus.yml"


def scrape_targets() -> list[str]:
    """The targets of the one job."""
    return [target for static in _statics(_load()) for target in static["targets"]]


def with_target(target: str) -> str:
    """The same configuration for a service elsewhere, scraped every second."""
    config = _load()
    config["global"]["scrape_interval"] = "1s"
    (static,) = _statics(config)
    static["targets"] = [target]
    return yaml.safe_dump(config)


def _load() -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(CONFIG.read_text())
    return config


def _statics(config: dict[str, Any]) -> list[dict[str, Any]]:
    (job,) = config["scrape_configs"]
    statics: list[dict[str, Any]] = job["static_configs"]
    return statics
