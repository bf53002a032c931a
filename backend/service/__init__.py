"""The retrieval service: a process that loads encoders and indexes once and answers over HTTP. See `docs/serve.md`."""
