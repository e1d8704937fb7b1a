"""A checkpoint's tensors: torch.distributed.checkpoint, with tables as whole tensors made of blocks.

A table is one tensor to a checkpoint, whatever the sharding: each rank contributes the blocks that it holds,
with their offsets, and takes the blocks that it needs, so a training goes on in another layout. Where several
ranks hold the same block (replicas, dense layers) one of them writes it. The files are those of
torch.distributed.checkpoint; its tools read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
    FileSystemReader,
    FileSystemWriter,
)
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

from suite.checkpoints import folder as folders
from suite.errors import ErrorReport, RunFailed
from suite.spec import RunSpec


@dataclass(frozen=True)
class Blocks:
    """This rank's blocks of a tensor of ``shape``, by the offset of their first element. Live, not copies."""

    shape: tuple[int, ...]
    blocks: Mapping[tuple[int, ...], torch.Tensor]

    def size(self) -> torch.Size:
        """As a tensor's: of the whole."""
        return torch.Size(self.shape)

    def at(self, index: MetadataIndex) -> torch.Tensor:
        """The block that begins at an offset."""
        assert index.offset is not None
        return self.blocks[tuple(index.offset)]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return [ChunkStorageMetadata(torch.Size(at), block.size()) for at, block in self.blocks.items()]

    def __create_write_items__(self, name: str, _: object) -> list[WriteItem]:
        return [
            WriteItem(
                index=MetadataIndex(name, torch.Size(at)),
                type=WriteItemType.SHARD,
                tensor_data=TensorWriteData(
                    chunk=ChunkStorageMetadata(torch.Size(at), block.size()),
                    properties=TensorProperties.create_from_tensor(block),
                    size=self.size(),
                ),
            )
            for at, block in self.blocks.items()
        ]


State = Mapping[str, "torch.Tensor | Blocks"]


class _Saving(DefaultSavePlanner):
    def lookup_object(self, index: MetadataIndex) -> Any:
        found = self.state_dict[index.fqn]
        return found.at(index) if isinstance(found, Blocks) else super().lookup_object(index)


class _Loading(DefaultLoadPlanner):
    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        # Not the default's, which rebuilds the state and turns what it does not know into None. Ours is flat.
        self.state_dict = self.original_state_dict = state_dict
        self.metadata = metadata
        self.is_coordinator = is_coordinator

    def lookup_tensor(self, index: MetadataIndex) -> torch.Tensor:
        found = self.state_dict[index.fqn]
        return found.at(index) if isinstance(found, Blocks) else super().lookup_tensor(index)


def save(state: State, run: RunSpec, step: int, samples: int) -> None:
    """Writes a checkpoint into the run's folder. Collective: every rank calls it, right after a sync.

    Args:
        state: of this rank.
        run: its ``checkpoint`` says where.
        step: steps trained in all.
        samples: of the data stream that they have seen.

    Raises:
        RunFailed: it cannot be written (kind ``cannot_save``); nothing of it is taken for a checkpoint.
    """
    assert run.checkpoint is not None
    told: list[Any] = [None]
    try:
        if dist.get_rank() == 0:
            told[0] = folders.begin(Path(run.checkpoint.folder), step)
        dist.broadcast_object_list(told, src=0)
        dcp.save(dict(state), storage_writer=FileSystemWriter(told[0]), planner=_Saving())
        if dist.get_rank() == 0:
            folders.finish(told[0], run, step, samples)
        dist.barrier()
    except (OSError, CheckpointException) as error:
        raise _failed("cannot_save", run.checkpoint.folder, "could not be written", error) from error


def load(state: State, path: Path) -> None:
    """Fills this rank's tensors from a checkpoint that ``folder.read`` has found whole. Collective.

    ``pending.`` moments that the checkpoint does not have (its sync was not delayed) become the moments.

    Raises:
        RunFailed: it cannot be read (kind ``bad_checkpoint``).
    """
    reader = FileSystemReader(path)
    try:
        saved = reader.read_metadata().state_dict_metadata.keys()
        wanted = {name: part for name, part in state.items() if name in saved}
        lacking = [name for name in state if name not in saved and not name.startswith("pending")]
        if lacking:
            raise ValueError(f"it has no {', '.join(lacking)}")
        dcp.load(dict(wanted), storage_reader=reader, planner=_Loading(flatten_state_dict=False))
    except (OSError, ValueError, CheckpointException) as error:
        raise _failed("bad_checkpoint", str(path), "could not be read", error) from error
    for name, part in state.items():
        if name not in saved and isinstance(part, Blocks):
            moments = state[name.replace("pending", "moment", 1)]
            assert isinstance(moments, Blocks)
            for at, block in part.blocks.items():
                block.copy_(moments.blocks[at])


def _failed(kind: str, path: str, what: str, error: BaseException) -> RunFailed:
    return RunFailed(
        ErrorReport(
            kind=kind,
            field="checkpoint" if kind == "cannot_save" else "start_from",
            value=path,
            message=f"The checkpoint {what}: {_first_cause(error)}.",
            remedy="Make room, or name another folder."
            if kind == "cannot_save"
            else "Start from another one.",
        )
    )


def _first_cause(error: BaseException) -> str:
    if isinstance(error, CheckpointException) and error.failures:
        rank, (inner, _) = min(error.failures.items())
        return f"rank {rank}: {type(inner).__name__}: {inner}"
    return f"{type(error).__name__}: {error}"
