"""Contract: what a data source is.

A source is a seeded stream of samples addressed by index. Step s of a run with global batch G trains on
samples [s*G, (s+1)*G), whatever the world size and layout, and each rank asks only for its own slice.
"""

from __future__ import annotations

import abc
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from suite.errors import ConfigError
from suite.loading import load_attribute

if TYPE_CHECKING:
    from suite.spec import WorkloadSpec


@dataclass(frozen=True)
class Samples:
    """B consecutive samples.

    Attributes:
        dense: float32, shape [B, dense_features].
        labels: float32 in {0, 1}, shape [B].
        sparse: for each feature ``(ids, lengths)``: lengths int32 of shape [B], the number of ids of each
            sample; ids int64 of shape [sum(lengths)], sample after sample, each in [0, rows of its table).
    """

    dense: np.ndarray
    labels: np.ndarray
    sparse: Mapping[str, tuple[np.ndarray, np.ndarray]]


class DataSource(abc.ABC):
    """A seeded stream of training samples and a fixed evaluation split."""

    @classmethod
    def check(cls, workload: WorkloadSpec) -> None:
        """Refuses options, tables or missing files, before any process is launched, without torch.

        Raises:
            ConfigError: naming ``data.options.<name>``, ``tables...`` or ``data.location``.
        """

    @abc.abstractmethod
    def __init__(self, workload: WorkloadSpec, seed: int) -> None: ...

    @abc.abstractmethod
    def train(self, start: int, stop: int) -> Samples:
        """Samples [start, stop) of the training stream, a pure function of (workload, seed, index)."""

    @property
    @abc.abstractmethod
    def evaluation_size(self) -> int:
        """Samples in the evaluation split; 0 where there is none."""

    @abc.abstractmethod
    def evaluation(self, start: int, stop: int) -> Samples:
        """Samples [start, stop) of the evaluation split."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """For the record: ``fingerprint`` (of the data itself), split, sizes, base rate, source."""


def open_source(workload: WorkloadSpec, seed: int) -> DataSource:
    """Opens the workload's data source.

    Raises:
        ConfigError: ``data.source`` names no data source, or the source refuses the workload.
    """
    source = source_class(workload)
    return source(workload, seed)


def source_class(workload: WorkloadSpec) -> type[DataSource]:
    """The class that ``data.source`` names; a function that yields Samples is wrapped into one.

    Raises:
        ConfigError: it does not load, or is neither, or a method is missing.
    """
    reference = workload.data.source
    found = load_attribute(reference, "data.source")
    if isinstance(found, type) and issubclass(found, DataSource):
        if found.__abstractmethods__:
            missing = ", ".join(sorted(found.__abstractmethods__))
            raise ConfigError(
                "data.source", reference, f"it does not define {missing}.", "Define all of them."
            )
        return found
    if isinstance(found, type) or not callable(found):
        raise ConfigError(
            "data.source",
            reference,
            "this is neither a DataSource nor a function that yields Samples.",
            "Derive it from suite.data.DataSource, or see suite.data_stream.",
        )
    from suite.data_stream import stream_source  # it builds on this module

    return stream_source(found)


def described(source: DataSource, reference: str) -> dict[str, Any]:
    """What a source says of itself, as the record holds it: numpy's numbers become Python's.

    Raises:
        ConfigError: ``data.source``, of kind ``bad_data``: the record cannot hold it. Asked for before the
            training, so that none is lost for it.
    """
    told: object = source.describe()
    try:
        # To bytes, which a lone surrogate cannot become.
        data = json.loads(json.dumps(told, default=_python_number, ensure_ascii=False).encode())
        if not isinstance(data, dict):
            raise TypeError(f"{type(told).__name__} is no dict")
        if not isinstance(data.get("split", ""), str):
            raise TypeError(f"split is {data['split']!r}, no text")
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            "data.source",
            reference,
            f"what its describe() returns does not fit a record: {error}.",
            "Return a dict of text, numbers, lists and dicts, with split as text.",
            kind="bad_data",
        ) from error
    return data


def _python_number(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not JSON")
