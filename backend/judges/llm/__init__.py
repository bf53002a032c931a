"""Use language models with an OpenAI-compatible endpoint as judges: prompts, requests, and stored answers."""
