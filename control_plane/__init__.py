"""A Kubernetes control plane on loopback: etcd, API server, controller manager, scheduler.

The real programs, of the cluster's own version; no kubelet and no container runs.
"""
