"""How replicas are kept equal: what is averaged behind one contract, a file each; when is the schedule's.

With the optimizer fused into the backward pass there are no gradients to all-reduce: each group has
already applied its own. So the WEIGHTS are averaged over the M ranks of a replica set, and the optimizer
state with them or one sync later.
"""
