"""Which code a run names, as digests of its source files: the spec holds names alone, and code changes.

An implementation, a model's factory and a data source are ``module:attribute`` in a run. Two runs of equal
spec hash may train unlike models where one of those modules was edited in between. The suite's own modules
are not digested: the commit and the flag ``dirty_tree`` speak for them.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from suite.spec import RunSpec

#: The suite's own top-level packages.
OWN = frozenset({"suite", "reference_impl", "workloads", "profiles", "benchmarks"})


def code_prints(run: RunSpec) -> dict[str, str]:
    """Digests of the source files behind a run's implementation, factory and data source, by module.

    Modules that they import are in it too, where they lie beside them; of an installed package only its own.
    Names the first 16 hex digits of the SHA-256. What cannot be found or read is left out.
    """
    references = (run.implementation, run.workload.model.factory, run.workload.data.source)
    prints: dict[str, str] = {}
    for reference in references:
        module, separator, _ = (reference or "").partition(":")
        if separator and _top(module) not in OWN and (file := _file_of(module)) is not None:
            _follow(module, file, prints)
    return dict(sorted(prints.items()))


def _follow(module: str, file: Path, prints: dict[str, str]) -> None:
    root = file.parents[module.count(".") + (file.name == "__init__.py")]
    shared = {Path(path) for path in sysconfig.get_paths().values()}  # where unrelated packages lie, too
    waiting = [module]
    while waiting:
        name = waiting.pop()
        source = next((f for f in _candidates(root, name) if f.is_file()), None)
        if name in prints or source is None:
            continue
        try:
            content = source.read_bytes()
            tree = ast.parse(content)
        except (OSError, ValueError, SyntaxError):
            continue
        prints[name] = hashlib.sha256(content).hexdigest()[:16]
        package = name if source.name == "__init__.py" else name.rpartition(".")[0]
        waiting += [
            found
            for found in _imported(tree, package)
            if _top(found) not in OWN and (root not in shared or _top(found) == _top(module))
        ]


def _imported(tree: ast.AST, package: str) -> Iterator[str]:
    """Names of modules that a module of ``package`` imports, anywhere in it; some may be mere attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join(filter(None, [*above, node.module]))
            yield from filter(None, [base, *(f"{base}.{alias.name}".lstrip(".") for alias in node.names)])


def _candidates(root: Path, module: str) -> tuple[Path, Path]:
    path = root.joinpath(*module.split("."))
    return path / "__init__.py", path.with_name(f"{path.name}.py")


def _file_of(module: str) -> Path | None:
    """The source file that a module is imported from."""
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # no such parent package, or a module without a spec
        return None
    return Path(found.origin) if found is not None and found.origin and found.has_location else None


def _top(module: str) -> str:
    return module.partition(".")[0]
