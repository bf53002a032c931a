"""Language models behind an OpenAI-compatible endpoint as judges: prompts, requests, stored answers, injections."""
