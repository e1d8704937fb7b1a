"""The quality lab: is a model trained in 2D as good as one trained in 1D, and what decides it?

``virtual`` trains M replica groups in one process, exactly; ``spec`` says what one training is, ``training``
runs it, ``library`` keeps its result, ``parity`` judges two arms over paired seeds.
"""
