"""Texts against texts: tokens, spans, answer rules, gold matching."""
