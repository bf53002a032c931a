"""Maps of the embedding space: which points are on one, how it is made, what is kept, its clusters, its way to judging."""

from backend.maps.making import make, make_map
from backend.maps.request import MapRequest
from backend.maps.stored import Map, maps_of

__all__ = ["Map", "MapRequest", "make", "make_map", "maps_of"]
