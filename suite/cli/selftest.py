"""``sparse2d selftest``: what to run first on a new machine; one file to share."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from suite.cli.failures import RUN_FAILED
from suite.cli.streams import messages
from suite.cli.tables import table
from suite.cli.verb import Result, verb
from suite.doctor import examine
from suite.environment import capture, visible_gpus
from suite.errors import ConfigError
from suite.files import write_whole
from suite.implementation import implementation_class
from suite.selftest.parts import Part, cases_of, conformance, parts

COLOURS = {"ok": "green", "skipped": "yellow", "fail": "red"}


@verb("selftest")
def selftest(
    device: Annotated[
        str, typer.Option(metavar="NAME", help="One of cpu, cuda.  [default: cuda where there are GPUs]")
    ] = "",
    check: Annotated[
        str,
        typer.Option(metavar="NAME", help="This implementation alone: a name or module:Class of your own."),
    ] = "",
    world_size: Annotated[int, typer.Option(help="T, with --check.")] = 2,
    replica_groups: Annotated[int, typer.Option(help="M, with --check.")] = 1,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all of it as JSON into a new file, to share.")
    ] = None,
) -> Result:
    """Train every implementation ten steps beside an oracle in plain PyTorch, and make a rank fail.

    Tells whether this machine trains the right thing and reads its memory sanely, and whether a fault ends
    cleanly. Exit code 3 if a part failed. Takes some minutes.

    \b
    Examples:
      sparse2d selftest
      sparse2d selftest --file selftest.json
      sparse2d selftest --check my_package.my_file:MyImplementation --world-size 4 --replica-groups 2
    """
    device = device or ("cuda" if visible_gpus() else "cpu")
    if device not in ("cpu", "cuda"):
        raise ConfigError("device", device, "there is no such device.", "Use cpu or cuda.")
    if device == "cuda" and not visible_gpus():
        raise ConfigError("device", device, "no GPU is visible here.", "Use --device cpu.")
    if file is not None and (file.exists() or not file.absolute().parent.is_dir()):
        raise ConfigError(
            "file", str(file), "it is there already, or its folder is not.", "Name a new file in a folder."
        )
    todo = list(parts(device))
    if check:
        implementation_class(check)
        chosen = cases_of(check, world_size, replica_groups)
        for case in chosen:
            case.run(device)  # a layout that cannot be is bad input, not a failure
        todo = [(case.name, partial(conformance, case, device)) for case in chosen]
    console = messages()
    done: list[Part] = []
    for number, (name, part) in enumerate(todo, start=1):
        console.print(f"[{number}/{len(todo)}] {name}", markup=False, soft_wrap=True)
        done.append(part())
    environment = capture(None)
    body: dict[str, Any] = {
        "device": device,
        "parts": [part.model_dump() for part in done],
        "doctor": [] if check else [c.model_dump() for c in examine(Path("runs"))],
    }
    failed = any(part.status == "fail" for part in done)
    code = RUN_FAILED if failed else 0

    def show(out: Console) -> None:
        made = table("", "", "", left=3)
        made.show_header = False
        for part in done:
            made.add_row(part.name, f"[{COLOURS[part.status]}]{part.status}[/]", part.message)
        out.print(made)
        out.print(f"selftest on {device}: {'failed' if failed else 'fine'}")

    if file is not None:
        content = body | {"environment": environment.model_dump(mode="json"), "exit_code": code}
        try:
            write_whole(file, json.dumps(content, indent=1) + "\n")
        except OSError as error:  # a disk that is full by now: what was found is not lost for it
            show(console)
            raise ConfigError(
                "file", str(file), f"it cannot be written: {error.strerror}.", "Name another file."
            ) from error

    return Result(body, show, exit_code=code, flags=environment.flags)
