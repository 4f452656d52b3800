"""The protocol of OpenAI-compatible servers: requests, events, limits and access."""
