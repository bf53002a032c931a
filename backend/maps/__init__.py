"""Maps of the embedding space: their points, projection, storage and clusters, and sending a selection of points to
judging.
"""
