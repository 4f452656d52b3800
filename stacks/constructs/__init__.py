"""Constructs for any EKS cluster: they know no experiment and no chart."""
