"""Use language models with an OpenAI-compatible endpoint as judges: prompts, requests, stored answers, and a test of
prompt injections.
"""
