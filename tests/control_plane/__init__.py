"""A Kubernetes control plane on loopback: etcd, API server, controller manager, scheduler.

The programs are the real ones, at the version that the cluster runs. There is no kubelet, and no
container runs.
"""
