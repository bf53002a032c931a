"""Text processing: tokens, character spans, answer-matching rules, and the matching of gold paragraphs to passages."""
