from __future__ import annotations

import numpy as np

from workloads.data.counter_random import bits, key, permutation, standard, uniform


def test_bits_are_splitmix64() -> None:
    # The well-known first output of SplitMix64 seeded with 1234567.
    assert bits(0, np.array([1_234_567]))[0] == 6_457_827_717_110_365_317


def test_a_number_depends_on_its_counters_alone() -> None:
    index = np.arange(1_000)
    assert (uniform(7, index)[300:400] == uniform(7, index[300:400])).all()


def test_streams_and_counters_differ() -> None:
    index = np.arange(1_000)
    assert not (bits(7, index) == bits(8, index)).any()
    assert not (bits(7, index, index) == bits(7, index)).any()
    assert not (bits(7, index, index + 1) == bits(7, index + 1, index)).any()


def test_keys_are_stable_and_differ() -> None:
    assert key("train", 0) == 8_557_785_237_551_269_004
    assert len({key("train", 0), key("train", 1), key("evaluation", 0), key("train0")}) == 4


def test_uniform_fills_the_interval_evenly() -> None:
    drawn = uniform(3, np.arange(100_000))
    counts = np.histogram(drawn, bins=10, range=(0, 1))[0]
    # Binomial, n = 100,000, p = 0.1: standard deviation 95; five of them.
    assert abs(counts - 10_000).max() < 475


def test_standard_has_mean_0_and_variance_1() -> None:
    drawn = standard(3, np.arange(100_000))
    # Standard errors 0.0032 and 0.0028; five of them.
    assert abs(drawn.mean()) < 0.016
    assert abs(drawn.var() - 1) < 0.014


def test_a_permutation_has_every_number_once() -> None:
    order = permutation(5, 1_000)
    assert sorted(order) == list(range(1_000))
    assert not (order == permutation(6, 1_000)).all()
