"""Metrics: what is computed from a record. A family is one file here with its own ``METRICS``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

from suite.metrics.base import Metric


def _collect() -> Mapping[str, Metric]:
    found: dict[str, Metric] = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
        for metric in getattr(importlib.import_module(f"{__name__}.{module}"), "METRICS", ()):
            if metric.name in found:
                raise ValueError(f"two metrics are named {metric.name!r}")
            found[metric.name] = metric
    return MappingProxyType(found)


#: Every metric by name, found in the modules of this package.
METRICS: Mapping[str, Metric] = _collect()
