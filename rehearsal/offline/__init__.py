"""Variants as jobs: in place of ``inference_demo``, what it would leave."""
