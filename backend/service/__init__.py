"""The retrieval service: a process that loads encoders and indexes once and handles search requests over HTTP. See
`docs/serve.md`.
"""
