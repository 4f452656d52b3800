"""What a control plane alone lacks: nodes with devices, and kubelets that play pods."""
