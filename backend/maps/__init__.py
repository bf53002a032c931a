"""Maps of the embedding space: their points, projection, storage and clusters, and the way from a selection to
judging.
"""

from backend.maps.making import make, make_map
from backend.maps.request import MapRequest
from backend.maps.stored import Map, maps_of

__all__ = ["Map", "MapRequest", "make", "make_map", "maps_of"]
