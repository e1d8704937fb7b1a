"""In what precision pooled vectors and their gradients travel inside a sharding group.

Rounded to 16 bits before the exchange and back to 32 after it, in both directions, by TorchRec's codecs: half
the bytes of `output_dist` and of its backward. Ids, dense gradients and the replica sync are untouched.
"""

from __future__ import annotations

from typing import Literal

import torch
from torchrec.distributed.fbgemm_qcomm_codec import CommType, QCommsConfig, get_qcomm_codecs_registry
from torchrec.distributed.types import QuantizedCommCodecs

from reference_impl.errors import InvalidConfiguration

ExchangeDtype = Literal["fp32", "fp16", "bf16"]


def codecs(dtype: ExchangeDtype, device: torch.device) -> dict[str, QuantizedCommCodecs] | None:
    """TorchRec's codecs by collective; None for fp32, which needs none.

    Raises:
        InvalidConfiguration: the device has no such exchange.
    """
    if dtype == "bf16" and device.type == "cpu":
        # TorchRec would take fp16 instead and only log it.
        raise InvalidConfiguration(
            "exchange_dtype", dtype, "gloo has no bf16.", "Use fp16 or fp32, or --device cuda."
        )
    kind = CommType(dtype)
    return get_qcomm_codecs_registry(
        QCommsConfig(forward_precision=kind, backward_precision=kind), device=device
    )
