"""`blindspot map`: make maps of the embedding space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from blindspot.app.commands.common import StudyOption, do, group, open_study
from blindspot.app.commands.options import takes_settings
from blindspot.backend.core.declared import declared_settings
from blindspot.backend.maps.settings import MapRequest
from blindspot.backend.text.number_words import quantity

if TYPE_CHECKING:
    from blindspot.backend.maps.stored import Map


map_app = group("Make maps of the embedding space.")


@map_app.command("new")
@takes_settings(MapRequest, names=[name for name in declared_settings(MapRequest) if name != "name"])
def map_new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name for the map.")],
    *,
    settings: dict[str, Any],
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace the map of this name if it exists."),
    ] = False,
    study: StudyOption = None,
) -> None:
    """Make a map: questions and passages in the plane, with clusters and measures of the map's quality.

    Without --passages it takes gold and random passages, with --run also the run's top passages.
    """
    from blindspot.backend.maps.making import make

    opened = open_study(study)
    settings.setdefault("passages", ["gold", "top", "random"] if "run" in settings else ["gold", "random"])
    result = do(make, opened, name=name, **settings, replace_old=replace)
    _print_map(result)
    print(f"Look at it: blindspot open, page Map ({name}).")


def _print_map(map: Map) -> None:
    manifest = map.manifest
    sources = ", ".join(f"{count:,} {source}" for source, count in manifest["sources"].items())
    print(
        f"Map {map.name}: {quantity(map.shown_questions, 'question')} and {quantity(len(map.ordinals), 'passage')} ({sources}), "
        f"{manifest['request']['method']}, seed {manifest['seed']}, {manifest['seconds']:.0f} s."
    )
    for encoder in manifest["encoders"]:
        quality = encoder["quality"]
        trust, overlap = quality["trustworthiness"], quality["overlap"]
        print(
            f"{encoder['name']}: trustworthiness {trust['value']:.3f} ({trust['low']:.3f} to {trust['high']:.3f}), "
            f"neighbour overlap {overlap['value']:.3f} ({overlap['low']:.3f} to {overlap['high']:.3f}; "
            f"{quality['by_chance']:.4f} by chance), k = {quality['k']}, n = {quality['rows']:,} of "
            f"{quality['points']:,} points"
        )
    if len(manifest["encoders"]) > 1:
        print(map.alignment_sentence)
