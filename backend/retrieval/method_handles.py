"""Build Java method handles from Python: small programs that run inside Java without a compiler or additional Java
classes.

Each call from Python into Java takes microseconds. Method handles combine Java's methods, including loops, into one
function, so that one call does the work of millions of calls. Use this module only inside `on_jvm`.
"""

from __future__ import annotations

from typing import Any

from blindspot.backend.retrieval.lucene import java_class

_PRIMITIVES = {
    "boolean": "Boolean", "byte": "Byte", "int": "Integer", "long": "Long", "float": "Float", "void": "Void",
}  # fmt: skip


def handles() -> Any:
    """Return the class java.lang.invoke.MethodHandles."""
    return java_class("java.lang.invoke.MethodHandles")


def class_of(name: str) -> Any:
    """Return the java.lang.Class for the full name of a class, or for a primitive type such as `int`."""
    if name in _PRIMITIVES:
        return java_class(f"java.lang.{_PRIMITIVES[name]}").TYPE
    return java_class("java.lang.Class").forName(name)


def type_of(result: str, *arguments: str) -> Any:
    """Return the java.lang.invoke.MethodType for a method's result type and argument types."""
    return java_class("java.lang.invoke.MethodType").methodType(class_of(result), *map(class_of, arguments))


def method(owner: str, name: str, *types: str) -> Any:
    """Return the handle of an instance method. `types` are the type of the result and the types of the arguments."""
    return handles().publicLookup().findVirtual(class_of(owner), name, type_of(*types))


def static_method(owner: str, name: str, *types: str) -> Any:
    """Return the handle of a static method. `types` are the type of the result and the types of the arguments."""
    return handles().publicLookup().findStatic(class_of(owner), name, type_of(*types))


def field(owner: str, name: str, kind: str) -> Any:
    """Return a handle that reads a field of an object."""
    return handles().publicLookup().findGetter(class_of(owner), name, class_of(kind))


def constant(kind: str, value: Any) -> Any:
    """Return a handle that always returns `value`, which is None or a boxed number (pyjnius 1.9 crashes on a Python
    int).
    """
    return handles().constant(class_of(kind), value)


def function(interface: str, handle: Any) -> Any:
    """Wrap a handle as an interface with one method, such as `java.util.function.Function`."""
    import jnius

    proxies = java_class("java.lang.invoke.MethodHandleProxies")
    return jnius.cast(interface, proxies.asInterfaceInstance(class_of(interface), handle))


def run(handle: Any) -> None:
    """Call a handle without arguments and ignore its result."""
    function("java.lang.Runnable", handle).run()
