"""A tab of the app without a browser: the websocket that Streamlit's own frontend speaks, message by message.

The messages are modelled on that frontend in Chromium: a link is a rerun with another address, a component's value is a
rerun of its fragment, and large elements that the tab already has are referenced, not sent again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

SECONDS_TO_ANSWER = 60


@dataclass
class Component:
    """A component on the page: the address of its values, and its data."""

    id: str
    fragment: str
    data: dict[str, Any]


@dataclass
class Shown:
    """The result of a run of the page's script: the markup, and the components by name."""

    html: str = ""
    components: dict[str, Component] = field(default_factory=dict)
    bytes: int = 0


class Tab:
    """One session. `cookie`: as the browser would send it, "name=value"."""

    def __init__(self, address: str, cookie: str = ""):
        from websockets.sync.client import connect

        self._address = address
        headers = {"Cookie": cookie} if cookie else {}
        self._open = ExitStack()
        self._socket = self._open.enter_context(
            connect(
                f"ws://{address}/_stcore/stream",
                origin=f"http://{address}",
                subprotocols=["streamlit"],
                additional_headers=headers,
                max_size=None,
                proxy=None,
                open_timeout=SECONDS_TO_ANSWER,
            )
        )
        self._pages: dict[str, str] = {}
        self._seen: dict[str, tuple[int, Any]] = {}
        self._runs, self._kept_for = 0, 2
        self._here: tuple[str, Mapping[str, Any]] = ("", {})

    def close(self) -> None:
        self._open.close()

    def go(self, page: str, /, **parameters: Any) -> Shown:
        """Follow a link ("" is Home), and return what the page shows after its script has ended."""
        self._here = page, parameters
        return self._run()

    def send(self, component: Component, value: Mapping[str, Any]) -> Shown:
        """Set a component's value, as its script does; its fragment runs again."""
        return self._run({component.id: json.dumps(value)}, component.fragment)

    def _run(self, values: Mapping[str, str] | None = None, fragment: str = "") -> Shown:
        from streamlit.proto.BackMsg_pb2 import BackMsg

        page, parameters = self._here
        said = BackMsg()
        state = said.rerun_script
        state.query_string, state.fragment_id = urlencode(parameters), fragment
        if self._pages:
            state.page_script_hash = self._pages[page]
        else:
            state.page_name = page
        state.is_history_navigation = bool(self._pages) and not fragment
        state.cached_message_hashes.extend(self._seen)
        state.context_info.url = f"http://{self._address}/{page}"
        state.context_info.timezone, state.context_info.locale, state.context_info.color_scheme = (
            "UTC",
            "en-US",
            "light",
        )
        state.widget_states.SetInParent()
        for id, value in (values or {}).items():
            widget = state.widget_states.widgets.add()
            widget.id, widget.json_value = id, value
        self._socket.send(said.SerializeToString())
        return self._received()

    def _received(self) -> Shown:
        """Read messages until the run has ended; a run that requests another run is not the end. Raises RuntimeError if
        the page failed.
        """
        from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

        shown = Shown()
        while True:
            raw = self._socket.recv(SECONDS_TO_ANSWER)
            message = ForwardMsg()
            message.ParseFromString(raw)
            shown.bytes += len(raw)
            kind = message.WhichOneof("type")
            if kind == "ref_hash":
                message, kind = self._seen[message.ref_hash][1], "delta"
            if message.metadata.cacheable:
                self._seen[message.hash] = self._runs, message
            if kind == "delta":
                self._show(message.delta, shown)
            elif kind == "new_session":
                self._kept_for = message.new_session.config.max_cached_message_age or self._kept_for
            elif kind == "navigation":
                self._pages = {
                    "" if page.is_default else page.url_pathname: page.page_script_hash
                    for page in message.navigation.app_pages
                }
            elif kind == "script_finished":
                if message.script_finished == ForwardMsg.FINISHED_WITH_COMPILE_ERROR:
                    raise RuntimeError("the page's script could not be compiled")
                if message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                    break
                shown = Shown(bytes=shown.bytes)
        self._runs += 1
        self._seen = {hash: kept for hash, kept in self._seen.items() if self._runs - kept[0] <= self._kept_for}
        return shown

    def _show(self, delta: Any, shown: Shown) -> None:
        if delta.WhichOneof("type") != "new_element":
            return
        element = delta.new_element
        kind = element.WhichOneof("type")
        if kind == "html":
            shown.html += element.html.body
        elif kind == "exception":
            raise RuntimeError(f"{element.exception.type}: {element.exception.message}")
        elif kind == "bidi_component":
            made = element.bidi_component
            name = made.component_name.rpartition(".")[2]
            shown.components[name] = Component(made.id, delta.fragment_id, json.loads(made.json or "null") or {})
