"""`blindspot map`: make maps of the embedding space, list them, print their numbers."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blindspot.app.commands.common import AsJson, StudyOption, do, group, open_study, print_json
from blindspot.app.commands.options import takes_settings
from blindspot.backend.core.declared import declared_settings
from blindspot.backend.maps.settings import MapRequest
from blindspot.backend.text.number_words import quantity

if TYPE_CHECKING:
    from blindspot.backend.maps.stored import Map


map_app = group("Make maps of the embedding space, list them, print their numbers.")


@map_app.command("new")
@takes_settings(MapRequest, names=[name for name in declared_settings(MapRequest) if name not in ("name", "slice")])
def map_new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name for the map.")],
    *,
    settings: dict[str, Any],
    selection: Annotated[str | None, typer.Option(help="Use the questions of this selection, saved on a map.")] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace the map of this name if it exists; changes to its clusters are lost."),
    ] = False,
    study: StudyOption = None,
) -> None:
    """Make a map: questions and passages in the plane, with clusters and measures of the map's quality.

    Without --passages it takes gold and random passages, with --run also the run's top passages.
    """
    from blindspot.backend.evaluation.saved_selections import saved_selection
    from blindspot.backend.maps.making import make

    opened = open_study(study)
    if selection:
        settings["slice"] = tuple(saved_selection(opened, selection).questions)
    settings.setdefault("passages", ["gold", "top", "random"] if "run" in settings else ["gold", "random"])
    result = do(make, opened, name=name, **settings, replace_old=replace)
    _print_map(result)
    print(f"Look at it: blindspot open, page Map ({name}).")


@map_app.command("list")
def map_list(as_json: AsJson = False, study: StudyOption = None) -> None:
    """List the maps of the study, oldest first."""
    from blindspot.backend.maps.stored import maps_of

    result = maps_of(open_study(study))
    if as_json:
        print_json(list(result.values()))
        return
    if not result:
        print("No maps yet. Make one: blindspot map new NAME")
    for name, manifest in result.items():
        encoders = " and ".join(encoder["name"] for encoder in manifest["encoders"])
        print(
            f"{name}: {encoders}, {manifest['request']['method']}, seed {manifest['seed']}, "
            f"{quantity(manifest['question_points'], 'question')}, {quantity(manifest['passages'], 'passage')}, made "
            f"{manifest['made']}"
        )


@map_app.command("show")
def map_show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the map.")],
    as_json: AsJson = False,
    study: StudyOption = None,
) -> None:
    """Print the numbers of a map: its quality, the spread of each group, the clusters."""
    from blindspot.backend.maps.edits import clusters_of
    from blindspot.backend.maps.point_values import cluster_rows, facts_of_points
    from blindspot.backend.maps.stored import Map

    map = Map.open(open_study(study), name)
    state = clusters_of(map)
    rows = cluster_rows(facts_of_points(map), state, {}, 1)
    if as_json:
        clusters = [
            {
                "number": row.id + 1,
                **{key: value for key, value in asdict(row).items() if key not in ("id", "hits")},
                "words": state.words.get(row.id, []),
                "note": state.notes.get(row.id, ""),
            }
            for row in rows
        ]
        print_json({**map.manifest, "spread": map.spread, "clusters": clusters})
        return
    _print_map(map)
    _print_spread(map)
    for row in rows:
        print(
            f"Cluster {row.name}: {quantity(row.size, 'passage')}, {row.unlabelled.percent[0]:.0f}% unlabelled, "
            f"{quantity(row.questions, 'question')}"
        )


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


def _print_spread(map: Map) -> None:
    """Print the mean cosine, the cosine with the nearest other positive and the margin of each group. With two
    encoders, print the values before and after, and the change.
    """
    for row in map.spread:
        first = row.get("before", row)
        parts = []
        for key, words in (("similarity", "mean cosine"), ("nearest", "nearest other"), ("margin", "margin")):
            shown = (first[key], row["after"][key], row[key]) if "before" in row else (first[key],)
            if all(shown):
                values = " -> ".join(f"{each['value']:.3f}" for each in shown[:2])
                last = shown[-1]
                change = f", change {last['value']:+.3f}" if len(shown) == 3 else ""
                interval = "" if last["low"] is None else f" ({last['low']:+.3f} to {last['high']:+.3f})"
                parts.append(f"{words} {values}{change}{interval}")
        print(f"Positives of {row['group']} ({first['positives']:,}): {'; '.join(parts)}")
