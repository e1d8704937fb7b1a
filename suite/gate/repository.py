"""The two commits of a repository, each checked out in a worktree of its own that is gone afterwards."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from suite.errors import ConfigError


@dataclass(frozen=True)
class Commit:
    """One side: what the user called it, and the commit that it is."""

    name: str
    sha: str


def top_of(path: Path) -> Path:
    """The top folder of the checkout that ``path`` is in.

    Raises:
        ConfigError: it is in none, or git is missing.
    """
    try:
        return Path(_git(path, "rev-parse", "--show-toplevel"))
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigError(
            "repo",
            str(path),
            f"this is no git checkout: {_said(error)}.",
            "Name one with --repo; saved records go with --base-runs and --head-runs.",
        ) from error


def resolve(repo: Path, field: str, revision: str) -> Commit:
    """The commit behind a branch, tag or hash.

    Raises:
        ConfigError: there is none.
    """
    try:
        return Commit(revision, _git(repo, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"))
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigError(
            field,
            revision,
            "the repository has no such commit.",
            "Name a branch, tag or hash; in a shallow clone fetch it first (git fetch --unshallow).",
        ) from error


def refuse_dirty(repo: Path) -> None:
    """Refuses uncommitted changes: what is gated is a commit, and they would be left out without a word.

    Raises:
        ConfigError: naming some of the files.
    """
    changed = _git(repo, "status", "--porcelain", "--untracked-files=no").splitlines()
    if changed:
        names = [line[2:].strip() for line in changed]
        raise ConfigError(
            "head",
            "HEAD",
            f"{len(names)} files have uncommitted changes, which would not be gated: {', '.join(names[:3])}.",
            "Commit or stash them, or name the commit with --head.",
        )


@contextmanager
def worktrees(repo: Path, **commits: Commit) -> Iterator[dict[str, Path]]:
    """A worktree for each named commit, in a temporary folder.

    Raises:
        ConfigError: git cannot make one.
    """
    parent = Path(tempfile.mkdtemp(prefix="sparse2d-gate-"))
    try:
        made = {}
        for name, commit in commits.items():
            made[name] = parent / name
            try:
                _git(repo, "worktree", "add", "--quiet", "--detach", str(made[name]), commit.sha)
            except (OSError, subprocess.CalledProcessError) as error:
                raise ConfigError(
                    name,
                    commit.name,
                    f"it cannot be checked out: {_said(error)}.",
                    "Look at `git worktree list`, and at the room on the disk.",
                    kind="environment",
                ) from error
        yield made
    finally:
        shutil.rmtree(parent, ignore_errors=True)
        subprocess.run(["git", "-C", str(repo), "worktree", "prune"], capture_output=True, check=False)


def _git(repo: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(repo), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n")


def _said(error: Exception) -> str:
    text = getattr(error, "stderr", None) or str(error)
    return str(text).strip().removeprefix("fatal: ").splitlines()[0].rstrip(".")
