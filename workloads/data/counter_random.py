"""Random numbers as pure functions of counters.

There is no generator state: the number at (key, counters) is a hash of them, so a rank draws exactly the
samples of its own slice, in any order, and every world size sees the same stream. The hash is
SplitMix64's finaliser, written out here because the streams of a library's generators may change
between its versions.
"""

from __future__ import annotations

import hashlib

import numpy as np

_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)


def key(*parts: int | str) -> int:
    """A 64-bit key of a stream, from numbers and names."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "little")


def bits(stream: int, *counters: np.ndarray) -> np.ndarray:
    """64 random bits, uint64, for each position of the counters (integers >= 0, all of one shape)."""
    state: np.ndarray | np.uint64 = np.uint64(stream)
    for counter in counters:
        state = _mix(counter.astype(np.uint64) ^ state)
    return np.asarray(state)


def uniform(stream: int, *counters: np.ndarray) -> np.ndarray:
    """Uniform in [0, 1), float64, for each position of the counters."""
    return (bits(stream, *counters) >> np.uint64(11)) * 2.0**-53


def standard(stream: int, *counters: np.ndarray) -> np.ndarray:
    """Uniform with mean 0 and variance 1, float64, for each position of the counters."""
    return (uniform(stream, *counters) * 2.0 - 1.0) * 3.0**0.5


def permutation(stream: int, size: int) -> np.ndarray:
    """A random order of 0 .. size - 1, int64."""
    return np.argsort(bits(stream, np.arange(size)), kind="stable")


def _mix(state: np.ndarray) -> np.ndarray:
    state = state + _INCREMENT
    state = (state ^ (state >> np.uint64(30))) * _MULTIPLIER_1
    state = (state ^ (state >> np.uint64(27))) * _MULTIPLIER_2
    return state ^ (state >> np.uint64(31))


def permuted(stream: int, position: np.ndarray, size: int) -> np.ndarray:
    """Where a random permutation of 0 .. size - 1 has put each position, int64, with nothing stored.

    A Feistel network of four rounds permutes the 2^(2k) >= size numbers of two halves of k bits; who lands at
    ``size`` or above goes through it again ("cycle walking"; Black and Rogaway, CT-RSA 2002), at most four
    times on average.
    """
    half = np.uint64(max(1, -(-max(1, (size - 1).bit_length()) // 2)))
    mask = (np.uint64(1) << half) - np.uint64(1)
    found = position.astype(np.uint64)
    walking = np.ones(len(found), bool)
    while walking.any():
        left, right = found[walking] >> half, found[walking] & mask
        for number in range(4):
            rounds = np.full(len(left), number)
            left, right = right, left ^ (bits(stream, rounds, right) & mask)
        found[walking] = (left << half) | right
        walking[walking] = found[walking] >= size
    return found.astype(np.int64)
