"""A listener on loopback that notes whoever connects and what they send: for tests that nothing leaves the machine."""

from __future__ import annotations

import socket
import threading


class Listener:
    """Accepts every connection, keeps the first bytes of each, and answers nothing but HTTP 200 with {}."""

    def __init__(self):
        self.heard: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def port(self) -> int:
        return self._socket.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._socket.close()

    def _listen(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.heard.append(b"")
            connection.settimeout(0.5)
            with connection:
                try:
                    self.heard[-1] = connection.recv(65_536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
                except OSError:
                    continue
