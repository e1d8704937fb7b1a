"""The plan of a gate, from a TOML file: what is run, and how strictly it is judged."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from reference_impl.errors import InvalidConfiguration
from suite.errors import ConfigError
from suite.gate.findings import PartName, Policy
from suite.metrics import METRICS
from suite.metrics.base import Metric
from suite.spec import Frozen, validated

Positive = Annotated[int, Field(strict=True, ge=1)]
Margin = Annotated[float, Field(gt=0, lt=10)]


def _divides(groups: int, info: ValidationInfo) -> int:
    """Replica groups are of equal size; ``world_size`` is a field before it."""
    size = info.data.get("world_size")
    if size is not None and size % groups:
        raise InvalidConfiguration(
            "replica_groups", groups, f"it does not divide world_size = {size}.", f"Use a divisor of {size}."
        )
    return groups


class Configuration(Frozen):
    """One configuration that both sides run: ``sparse2d run`` with these options."""

    name: Annotated[str, Field(pattern=r"^\S(.*\S)?$")]
    workload: str
    world_size: Positive = 1
    replica_groups: Annotated[Positive, AfterValidator(_divides)] = 1
    #: ``--implementation`` of the gate takes its place where replica_groups is above 1, or where it is None.
    implementation: str | None = None
    seed: Annotated[int, Field(strict=True, ge=0)] = 0
    options: tuple[str, ...] = ()


class RegressionPlan(Frozen):
    """Base against head. ``launches`` a side for the first look, ``fresh_launches`` for the second.

    With fewer than three launches no noisy metric can look different: only what is deterministic is judged.
    """

    launches: Annotated[int, Field(strict=True, ge=1, le=100)] = 5
    fresh_launches: Annotated[int, Field(strict=True, ge=5, le=100)] = 6
    #: Share of a metric that does not matter, by its name; others have the metric's own.
    margins: dict[str, Margin] = Field(default_factory=dict)
    #: Components and roll-ups that are less of the step than this share are listed and not judged.
    smallest_component: Annotated[float, Field(ge=0, lt=1)] = 0.03
    policy: Policy = Policy()

    @field_validator("margins")
    @classmethod
    def _of_noisy_metrics(cls, margins: dict[str, float]) -> dict[str, float]:
        for name in margins:
            if name not in METRICS or METRICS[name].deterministic:
                raise InvalidConfiguration(
                    f"margins.{name}",
                    margins[name],
                    "there is no noisy metric of this name.",
                    "Use a name that the gate prints, such as step_ms or components.lookup.exposed_ms.",
                )
        return margins

    def margin(self, metric: Metric) -> float:
        """The share of this metric that does not matter."""
        own = metric.margin
        assert own is not None, f"{metric.name} is noisy and has no margin"
        return self.margins.get(metric.name, own)


class ExpectedPlan(Frozen):
    """The deterministic figures of this checkout against a file of expected values (``--expected``)."""

    #: The absolute difference that is no change, by metric; 0 where none is named.
    tolerances: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    policy: Policy = Policy(better="fail")

    @field_validator("tolerances")
    @classmethod
    def _of_deterministic_metrics(cls, tolerances: dict[str, float]) -> dict[str, float]:
        for name in tolerances:
            if name not in METRICS or not METRICS[name].deterministic:
                raise InvalidConfiguration(
                    f"tolerances.{name}",
                    tolerances[name],
                    "there is no deterministic metric of this name.",
                    "Use a name that the gate prints, such as auc.",
                )
        return tolerances


class Threshold(Frozen):
    """The least that is accepted at one point of a sweep."""

    scaling: Literal["weak", "strong"]
    world_size: Positive
    replica_groups: Annotated[Positive, AfterValidator(_divides)] = 1
    #: Samples a second and rank, over those of 1D at the plan's reference world size.
    efficiency: Annotated[float, Field(gt=0)] | None = None
    #: Samples a second over those of 1D at the same world size.
    of_1d: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _asks_for_something(self) -> Threshold:
        if self.efficiency is None and self.of_1d is None:
            raise InvalidConfiguration(
                "thresholds", f"T={self.world_size}", "it asks for nothing.", "Give efficiency or of_1d."
            )
        return self


class ScalingPlan(Frozen):
    """A workload over world sizes, against thresholds."""

    workload: str
    launches: Annotated[int, Field(strict=True, ge=3, le=100)] = 5
    #: World size that efficiencies are relative to.
    reference: Positive = 1
    options: tuple[str, ...] = ()
    thresholds: Annotated[tuple[Threshold, ...], Field(min_length=1)]
    policy: Policy = Policy()


class ParityPlan(Frozen):
    """2D against 1D in quality (``sparse2d parity``), and head's 2D against base's, on paired seeds."""

    workload: str
    #: Real ranks at this world size, as an implementation of your own needs. None: virtual groups.
    world_size: Positive | None = None
    replica_groups: Annotated[
        int, Field(strict=True, ge=2, validate_default=True), AfterValidator(_divides)
    ] = 4
    seeds: Annotated[int, Field(strict=True, ge=2, le=1000)] = 8
    #: Further options of ``sparse2d parity``, or with ``world_size`` of ``sparse2d run``.
    options: tuple[str, ...] = ()
    policy: Policy = Policy(inconclusive="fail")


class GatePlan(Frozen):
    """A whole gate. A part whose section is missing is not run."""

    schema_version: Literal[1] = 1
    configurations: tuple[Configuration, ...] = ()
    regression: RegressionPlan | None = None
    expected: ExpectedPlan = ExpectedPlan()
    scaling: ScalingPlan | None = None
    parity: ParityPlan | None = None
    #: Seconds after which one launch of one side is ended.
    launch_timeout_s: Annotated[float, Field(ge=10)] = 1800

    @model_validator(mode="after")
    def _whole(self) -> GatePlan:
        names = [configuration.name for configuration in self.configurations]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidConfiguration("configurations", twice, "a name is used twice.", "Name each once.")
        if self.regression is not None and not names:
            raise InvalidConfiguration(
                "configurations", [], "there is nothing to compare.", "Add a [[configurations]] section."
            )
        return self

    @property
    def parts(self) -> tuple[PartName, ...]:
        """The parts that have a section."""
        everything: tuple[PartName, ...] = ("regression", "scaling", "parity")
        return tuple(name for name in everything if getattr(self, name) is not None)


def load_plan(path: Path) -> GatePlan:
    """The plan in a TOML file.

    Raises:
        ConfigError: it cannot be read, is not TOML, or holds a word or value that no plan has.
    """
    return validated(GatePlan, read_toml(path, "plan"))


def read_toml(path: Path, field: str) -> dict[str, Any]:
    """A TOML file as plain data.

    Raises:
        ConfigError: of ``field``: it cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            field, str(path), f"the file cannot be read: {error.strerror}.", "Check the path."
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            field, str(path), f"the file is not TOML: {error}.", "docs/gates.md shows one."
        ) from error
