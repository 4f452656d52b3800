"""What runs inside the llmperf pod. Imports nothing of the rest of the project."""
