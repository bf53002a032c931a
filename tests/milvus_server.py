"""A Milvus server for tests: the standalone server of the wheel `milvus`, on free ports of this machine, over one data folder.

A machine holds one at a time: the etcd inside it takes a fixed port. Its log is in `folder`/logs.
"""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from pathlib import Path

KEY = "root:Milvus"
"""The user and password that a new server has."""
PORTS = (
    "etcd", "root_coord", "proxy", "proxy_internal", "query_coord", "query_node", "index_coord", "index_node", "data_coord", "data_node",
)  # fmt: skip
SECONDS_TO_START = 90


class Server:
    """A server that asks for a user and password. Its data outlive `kill`; `start` goes on with them."""

    def __init__(self, folder: Path):
        import milvus

        ports = dict(zip(PORTS, _free_ports(len(PORTS)), strict=True))
        self.uri = f"http://127.0.0.1:{ports['proxy']}"
        config = milvus.MilvusServerConfig(
            data_dir=str(folder), **{f"{name}_port": port for name, port in ports.items()}
        )
        config.set("authorization_enabled", True)
        config.try_bind_port = _bound  # the wheel's own refuses the ports of a server that has just been killed
        self._server = milvus.MilvusServer(config, wait_for_started=False)

    def start(self) -> None:
        """Start it, and wait until it takes requests. Raises TimeoutError if it does not."""
        self._server.start()
        deadline = time.monotonic() + SECONDS_TO_START
        while not self._answers():
            if self._server.server_proc.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise TimeoutError("the Milvus server did not start")
            time.sleep(0.2)

    def kill(self) -> None:
        """End it at once, as `kill -9` does."""
        if self._server.running:
            self._server.server_proc.kill()
            self._server.server_proc.wait()
            self._server.stop()

    def _answers(self) -> bool:
        from pymilvus import MilvusClient, MilvusException

        try:
            MilvusClient(self.uri, token=KEY, timeout=2).list_collections(timeout=2)
        except MilvusException:
            return False
        return True


def _bound(port: int) -> socket.socket:
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", port))
    return held


def _free_ports(n: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(n)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
