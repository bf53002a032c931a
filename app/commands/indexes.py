"""`blindspot index` and `blindspot encoder`: the indexes and encoders that retrieval needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from blindspot.app.commands.common import (
    Device,
    Encoder,
    StudyOption,
    Trust,
    do,
    group,
    open_study,
    progress,
    trust_models,
    unopened_study,
)
from blindspot.app.commands.options import takes_settings
from blindspot.backend.core.settings import MODELS, EncoderSettings
from blindspot.backend.retrieval.engines.engine_settings import EngineSettings
from blindspot.backend.retrieval.faiss_options import KINDS, FaissOptions, MilvusSettings
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import Refused

index_app = group("Index the passages for BM25 or for dense retrieval.")
encoder_app = group("Add encoders to study.toml, or list them.")


@index_app.command("bm25")
def index_bm25(
    study: StudyOption = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Number of indexing threads (default: all cores).")] = None,
) -> None:
    """Index the passages for BM25 with Lucene."""
    from blindspot.backend.retrieval.bm25 import build_index

    manifest = do(build_index, open_study(study), threads=threads)
    print(f"Indexed {quantity(manifest['passages'], 'passage')} for BM25 in {manifest['seconds']} s.")


@index_app.command("dense")
def index_dense(
    study: StudyOption = None,
    encoder: Encoder = "minilm",
    vectors: Annotated[
        Path | None, typer.Option(metavar="FILE.npy", help="Import vectors from this file; row i belongs to passage i.")
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Passage id of each row of --vectors, one a line (default: in the study's order)."
        ),
    ] = None,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Encode only shard I of N; --merge joins the shards.")
    ] = None,
    merge: Annotated[bool, typer.Option("--merge", help="Check all N shards and join them into the index.")] = False,
    precision: Annotated[
        str,
        typer.Option(
            help="Precision of the encoder: auto, float32, bfloat16 or float16. auto uses 16 bits if a sample of passages "
            "shows that they are exact enough."
        ),
    ] = "auto",
    device: Device = None,
) -> None:
    """Encode the passages, or import their vectors from a file. Resumes an interrupted encoding. Under torchrun, each
    process encodes a shard, and the first process joins them.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        merge = _encode_share(study, encoder, device, precision, plain=shard is None and vectors is None and not merge)
        if not merge:
            return
    if shard is not None:
        if merge or vectors is not None or ids is not None:
            raise Refused(
                "give only one of --shard, --merge and --vectors: --shard encodes one shard; --merge and "
                "--vectors make the whole index"
            )
        _encode_shard(study, encoder, shard, device, precision)
        return
    vectors_path, ids_path = (None if path is None else str(path.absolute()) for path in (vectors, ids))
    from blindspot.backend.retrieval.dense import build_index

    manifest = do(
        build_index,
        open_study(study),
        name=encoder,
        vectors=vectors_path,
        ids=ids_path,
        device=device,
        merge=merge,
        precision=precision,
    )
    print(
        f"{quantity(manifest['passages'], 'passage')}, {manifest['dimension']} dimensions, similarity "
        f"{manifest['similarity']}, {manifest['made_by']}, {manifest['seconds']} s."
    )


def _encode_share(folder: str | None, encoder: str, device: str | None, precision: str, plain: bool) -> bool:
    """Encode the shard of this process of torchrun's, and return whether this process joins the shards, which are all
    there then. plain: whether the command names no other way to make the index.
    """
    from blindspot.backend.training.distributed import is_main_process, join_processes, shard_and_device

    if not plain:
        raise Refused("torchrun's processes divide the passages; leave out --shard, --merge and --vectors")
    share, own_device = shard_and_device(device)
    _encode_shard(folder, encoder, share, own_device, precision)
    join_processes()
    return is_main_process()


def _encode_shard(folder: str | None, encoder: str, shard: str, device: str | None, precision: str) -> None:
    """Encode one shard without a job and without labels.db. Several machines may share the study's folder, but SQLite's
    write-ahead log works on one machine only.
    """
    from blindspot.backend.retrieval.dense import encode_part

    with progress() as watch:
        result = encode_part(unopened_study(folder), encoder, shard, device, precision, watch)
    print(
        f"Shard {result['shard']} of {result['of']}: {quantity(result['rows'], 'passage')} in {result['precision']}. "
        f"When all shards are done: blindspot index dense --encoder {encoder} --merge"
    )


@index_app.command("faiss")
@takes_settings(FaissOptions, "options")
def index_faiss(
    kind: Annotated[str, typer.Option(metavar="|".join(KINDS), help="Type of the index.")] = "hnsw",
    encoder: Encoder = "minilm",
    *,
    options: dict[str, Any],
    device: Device = None,
    study: StudyOption = None,
) -> None:
    """Build a FAISS index over an encoder's vectors, and measure its recall against exact search."""
    from blindspot.backend.retrieval.approximate import build

    manifest = do(build, open_study(study), name=encoder, kind=kind, device=device, options=options)
    recall = ", ".join(f"@{k} {100 * value:.1f}%" for k, value in manifest["recall"].items() if k.isdigit())
    print(
        f"{kind}: {quantity(manifest['passages'], 'vector')}, {manifest['bytes'] / 1e6:,.0f} MB, "
        f"{manifest['seconds']} s. Recall of the exact hits: {recall} (mean over {manifest['recall']['n']} "
        f"{manifest['recall']['of']})."
    )


@index_app.command("milvus")
@takes_settings(MilvusSettings)
def index_milvus(
    uri: Annotated[
        str,
        typer.Option(
            metavar="URI",
            help="Address of the server, such as http://localhost:19530, or a FILE.db for the embedded milvus-lite.",
        ),
    ],
    encoder: Encoder = "minilm",
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Setting of the index, as in M=32 (repeatable)."),
    ] = None,
    *,
    settings: dict[str, Any],
    study: StudyOption = None,
) -> None:
    """Fill a Milvus collection with an encoder's vectors. Resumes an interrupted upload."""
    milvus_settings = dict(each.partition("=")[::2] for each in parameters or ())
    from blindspot.backend.retrieval.milvus import build

    record = do(
        build,
        open_study(study),
        encoder=encoder,
        uri=uri,
        **settings,
        parameters={name: int(value) if value.isdecimal() else value for name, value in milvus_settings.items()},
    )
    print(
        f"Milvus holds {quantity(record['passages'], 'vector')} in {record['collection']} ({record['index']}), "
        f"{record['seconds']} s."
    )


@index_app.command("open")
@takes_settings(EngineSettings)
def index_open(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name for the index, to use with retrieve --index.")],
    where: Annotated[str, typer.Argument(metavar="WHERE", help="Path of the index.")],
    engine: Annotated[str, typer.Option(metavar="lucene|faiss", help="What WHERE is.")],
    *,
    settings: dict[str, Any],
    replace: Annotated[bool, typer.Option("--replace", help="Replace an opened index of this name.")] = False,
    study: StudyOption = None,
) -> None:
    """Search an index of Lucene or FAISS that exists already, without indexing anything again."""
    from blindspot.backend.retrieval.opened import open_index

    if "ids" in settings:
        settings["ids"] = str(Path(settings["ids"]).absolute())
    record = do(
        open_index, open_study(study), name=name, where=where, engine=engine, settings=settings, replace=replace
    )
    if record["passages_read"]:
        print(f"Read {quantity(record['passages_read'], 'passage')} from the index into the study.")
    matched = record["matched"]
    known = "" if matched is None else f", {matched:,} of them passages of this study"
    print(f"Opened {record['where']}: {quantity(record['documents'], 'document')}{known}.")
    print(f"Next: blindspot retrieve --with opened --index {name}")


@encoder_app.command("add")
@takes_settings(EncoderSettings)
def encoder_add(
    encoder: Annotated[str, typer.Argument(metavar="NAME", help="Name for the encoder, to use with --encoder.")],
    *,
    settings: dict[str, Any],
    trust: Trust = False,
    study: StudyOption = None,
) -> None:
    """Add an encoder to study.toml, after loading it once to see that it works."""
    from blindspot.backend.retrieval.adding_encoders import add_loaded_encoder

    model, question_model, passage_model = (settings.get(key) for key in MODELS)
    opened = open_study(study)
    if (model is None) == (question_model is None or passage_model is None):
        raise typer.BadParameter("give --model, or --question-model and --passage-model")
    for key in MODELS:
        if key in settings and Path(settings[key]).is_dir():
            settings[key] = str(Path(settings[key]).absolute())
    if trust:
        trust_models(opened, model, question_model, passage_model)
    added = add_loaded_encoder(opened, encoder, settings)
    for line in added.notes:
        print(line)
    print(f"{encoder}: {added.description}. Next: blindspot index dense --encoder {encoder}")


@encoder_app.command("list")
def encoder_list(study: StudyOption = None) -> None:
    """List the encoders of study.toml."""
    for name, settings in open_study(study).settings.encoders.items():
        print(f"{name}: {settings.model or f'{settings.question_model} + {settings.passage_model}'}")
