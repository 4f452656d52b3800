"""How OpenAI-compatible servers are spoken to, and what they may send."""
