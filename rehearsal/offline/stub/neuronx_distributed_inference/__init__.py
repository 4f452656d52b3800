"""In place of neuronx-distributed-inference v0.6.10598: the doors of ``rehearsal.offline.nxdi``."""
