"""The retrieval backend as a process of its own: encoders and indexes held once, asked over HTTP. `docs/serve.md` shows it."""
