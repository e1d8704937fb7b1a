"""``sparse2d sweep``: world sizes times replica groups, one record each, one table a workload."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated

import typer
from rich.console import Console

from suite import session
from suite.catalog import load_workload
from suite.cli.documents import outcome_body, summary
from suite.cli.failures import RUN_FAILED, relative
from suite.cli.options import Resume, RunOptions, whole_numbers
from suite.cli.progress import shown
from suite.cli.run import kept_text, show_failure
from suite.cli.slurm_options import SlurmOptions, submitted
from suite.cli.streams import messages
from suite.cli.tables import label, number, show_runs
from suite.cli.verb import Result, verb
from suite.errors import ConfigError
from suite.store import RECORD

#: By default, where they divide a world size.
REPLICA_GROUPS = (1, 2, 4)


@verb("sweep")
def sweep(
    workloads: Annotated[
        list[str],
        typer.Argument(
            metavar="WORKLOAD...", help="Names (`sparse2d workloads`), module:function or files.toml."
        ),
    ],
    options: RunOptions,
    slurm: SlurmOptions,
    world_sizes: Annotated[str, typer.Option(metavar="T,...", help="World sizes.")] = "1,2,4",
    replica_groups: Annotated[
        str | None,
        typer.Option(
            metavar="M,...",
            help="Numbers of replica groups; each at the world sizes it divides.  [default: those of "
            f"{','.join(map(str, REPLICA_GROUPS))} that divide any]",
        ),
    ] = None,
    resume: Resume = False,
) -> Result:
    """Train every world size with every number of replica groups that divides it.

    M = 1 runs on TorchRec's own 1D (baseline_1d), M > 1 on --implementation, so that the table shows 2D
    beside 1D. All configurations are checked before the first is launched; one that fails is reported and the
    others go on. Exit code 3 if any failed. A sweep that was ended (Ctrl-C, a signal, a reboot) goes on where
    it was with the same command and --resume; without it everything is measured anew beside the old records.

    \b
    Examples:
      sparse2d sweep dlrm_small
      sparse2d sweep movielens_100k dlrm_small --launches 5
      sparse2d sweep dlrm_small --world-sizes 2,4 --replica-groups 1,2
      sparse2d sweep dlrm_small --scaling weak --json > sweep.json
      sparse2d sweep dlrm_small --launches 5 --resume
      sparse2d sweep dlrm_small --launcher slurm --slurm-nodes 2 --slurm-time 60
    """
    sizes = whole_numbers(world_sizes, "world_sizes")
    groups = (
        [m for m in REPLICA_GROUPS if any(t % m == 0 for t in sizes)]
        if replica_groups is None
        else whole_numbers(replica_groups, "replica_groups")
    )
    if len(set(workloads)) < len(workloads):
        raise ConfigError("workload", workloads, "a workload is named twice.", "Name each workload once.")
    if options.launcher == "torchrun":
        raise ConfigError(
            "launcher",
            "torchrun",
            "one start by torchrun is one launch of one configuration.",
            "Start `run` for each, or sweep with --launcher slurm.",
        )
    options = slurm.spread(options, max(sizes))
    specs = [load_workload(name, options.data) for name in workloads]
    one_host = max(1, options.ranks_per_host or 1)
    bases = [options.build(spec, world_size=one_host) for spec in specs]
    runs = [run for base in bases for run in session.plan_sweep(base, sizes, groups)]
    console = messages()

    for size in sorted(set(sizes) - {run.layout.world_size for run in runs}):
        console.print(f"Note: T={size} is left out: none of the replica groups divides it.", markup=False)

    def tell(index: int, outcome: session.Outcome) -> None:
        speed = summary(outcome.record, "samples_per_s")
        console.print(
            f"[{index + 1}/{len(runs)}] {outcome.run.workload.name} {label(outcome.run)}: "
            + (f"{number(speed.median)} samples/s" if speed is not None else "failed")
            + (f" ({kept_text(outcome)})" if outcome.kept else "")
            + (f"  {relative(outcome.path / RECORD)}" if outcome.path is not None else ""),
            markup=False,
            soft_wrap=True,
        )
        if outcome.error is not None:
            show_failure(outcome, console)

    request = slurm.request(runs[0].launcher)
    with shown(runs, console) as report:
        if request is not None:
            outcomes = submitted(runs, options, request, console, report, tell, resume)
        else:
            launcher = session.open_launcher(runs[0].launcher)
            outcomes = session.sweep(runs, options.runs, launcher, report, tell, resume)

    def show(out: Console) -> None:
        for _, of_workload in groupby(outcomes, key=lambda outcome: outcome.run.workload):
            out.print()
            show_runs(list(of_workload), out)

    failed = any(outcome.error is not None for outcome in outcomes)
    flags = dict.fromkeys(f for o in outcomes if o.record is not None for f in o.record.environment.flags)
    return Result(
        {"runs": [outcome_body(outcome) for outcome in outcomes]},
        show,
        exit_code=RUN_FAILED if failed else 0,
        flags=tuple(flags),
    )
