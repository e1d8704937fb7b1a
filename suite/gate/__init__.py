"""The gate: may this change be merged? Regression, scaling and parity, each with a verdict.

``plan`` is what is gated and how strictly, as data; ``findings`` what a verdict is made of; ``noise`` the
test of one noisy metric. ``regression``, ``scaling``, ``parity`` judge what was measured, and start nothing;
``repository``, ``side`` and ``measuring`` run the sides, ``saved`` reads records instead, ``expected`` keeps
deterministic figures in a file. ``gating`` puts them together, ``report`` writes Markdown and JUnit XML.
"""
