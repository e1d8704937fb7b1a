"""What a scheduler's or a CI system's SIGTERM does to a command that has begun something."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_cleanly() -> Iterator[None]:
    """SIGTERM is taken for Ctrl-C: by itself it would leave processes and checkouts behind, and no word."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
