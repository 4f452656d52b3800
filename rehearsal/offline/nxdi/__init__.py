"""A golden NxDI: it generates by a schedule known beforehand, through the doors of the real one.

Modelled on neuronx-distributed-inference v0.6.10598, as far as a script sees it that calls
``inference_demo``: flags, what is called with what and in which order, what the answers are cut at,
and what goes wrong without a word if it is called otherwise. ``../stub`` has the doors, under the
names of the real packages.
"""
