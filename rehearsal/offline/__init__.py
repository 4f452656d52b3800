"""A job's variants on this machine: the pods of its indexes, and a golden ``inference_demo``."""
