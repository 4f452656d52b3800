"""What a change of an experiment, or of the code, would do: without an AWS account.

``fields`` compares the YAML files, ``stacks`` the cloud assemblies, ``manifests`` the Kubernetes
objects. ``workloads`` and ``resources`` say in words what follows for what runs; they read it off
the templates and manifests of both sides, whatever field has changed. ``sides`` makes both sides.
"""
