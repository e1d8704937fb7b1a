"""A run's sharding plan: by hand, or by TorchRec's planner."""

from __future__ import annotations

import logging
import threading
from typing import cast

import torch
import torch.distributed as dist
from torch import nn
from torchrec.distributed.types import ShardingPlan

from reference_impl.errors import InvalidConfiguration
from reference_impl.plan import ShardingType, plan_one_group
from reference_impl.planner import plan_by_planner
from suite.environment import available_memory
from suite.errors import ConfigError
from suite.spec import RunSpec


def sharding_plan(run: RunSpec, model: nn.Module, device: torch.device) -> ShardingPlan:
    """The plan of one sharding group: by hand, or by TorchRec's planner on rank 0. Collective."""
    if not run.layout.is_planned:
        sharding = {t.name: run.layout.sharding_of(t.name) for t in run.workload.tables}
        return plan_one_group(model, cast(dict[str, ShardingType], sharding), run.layout.ranks(), device)
    plans = [_planned(run, model) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(plans, src=0)
    return cast(ShardingPlan, plans[0])


def plan_in_time(run: RunSpec, model: nn.Module) -> None:
    """Lets the planner plan once, before anything is launched: does it find a plan, and soon enough?

    Its own time limit is looked at between proposals only, and then takes the best so far: another one each
    time.

    Raises:
        ConfigError: there is no plan, or none in ``layout.planner_timeout_s``.
    """
    failed: list[Exception] = []

    def plan() -> None:
        try:
            _planned(run, model)
        except Exception as error:
            failed.append(error)

    # A thread cannot be stopped; this one ends with the process, which the error is about to end.
    planning = threading.Thread(target=plan, daemon=True)
    logging.disable(logging.WARNING)  # the planner warns of every data-parallel table
    try:
        planning.start()
        planning.join(run.layout.planner_timeout_s)
    finally:
        logging.disable(logging.NOTSET)
    if planning.is_alive():
        raise ConfigError(
            "layout.planner_timeout_s",
            run.layout.planner_timeout_s,
            "TorchRec's planner has not come to an end in this many seconds.",
            "Raise --planner-timeout, name some tables' types, or shard by hand.",
        )
    for error in failed:
        if isinstance(error, InvalidConfiguration):
            raise ConfigError.from_invalid(error) from error
        raise error


def _planned(run: RunSpec, model: nn.Module) -> ShardingPlan:
    tables = run.workload.tables
    sharding = {t.name: run.layout.sharding_of(t.name) for t in tables}
    layout = run.layout.ranks()
    if run.device == "cuda":
        memory = torch.cuda.get_device_properties(0).total_memory
    else:
        memory = available_memory() // layout.world_size
    return plan_by_planner(
        model,
        {name: kind for name, kind in sharding.items() if kind != "planned"},
        {t.name: t.pooling_factor for t in tables},
        layout,
        layout.largest_slice(run.global_batch),
        memory,
    )
