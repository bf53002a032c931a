"""Share one file of passage vectors between encoders that have the same passage encoder."""

from __future__ import annotations

import os
import shutil
from typing import Any

from blindspot.backend.core.manifest import read_manifest, write_manifest
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.encoder import load_encoder


def share_index(study: Study, encoder: str, name: str, adapter: bool = False) -> None:
    """Make an index for an encoder that has another encoder's passage tower. It has the same vectors and a separate
    manifest.
    """
    source, folder = study.path("indexes", encoder), study.path("indexes", name)
    with study.lock_part(f"indexes/{name}"):
        (folder / "manifest.json").unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        vectors = folder / "embeddings.npy"
        vectors.unlink(missing_ok=True)
        try:
            os.link(source / vectors.name, vectors)  # one file under two names: no second copy on the disk
        except OSError:
            shutil.copyfile(source / vectors.name, vectors)
        described = load_encoder(study.settings.encoders[name]).describe()
        manifest: dict[str, Any] = read_manifest(source) or {}
        copied = {key: manifest[key] for key in ("passages", "corpus", "dtype", "unit_length")}
        write_manifest(
            folder,
            {
                "kind": "dense index",
                "encoder": name,
                **copied,
                **described,
                "made_by": f"adapter over {encoder}" if adapter else f"training of questions over {encoder}",
                "vectors_of": encoder,
            },
        )
