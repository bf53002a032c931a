"""Maps of the embedding space: their points, projection, storage and clusters, and the way from a selection to
judging.
"""

from blindspot.backend.maps.making import make, make_map
from blindspot.backend.maps.settings import MapRequest
from blindspot.backend.maps.stored import Map, maps_of

__all__ = ["Map", "MapRequest", "make", "make_map", "maps_of"]
