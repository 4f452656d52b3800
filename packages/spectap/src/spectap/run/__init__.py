"""Which turns are measured, in which order, and the folder that keeps them."""
