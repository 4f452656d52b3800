"""An account of AWS with a cluster, on this machine: what `make experiment` meets there."""
