"""Maps of the embedding space: their points, projection, storage and clusters, and the way from a selection to
judging.
"""
