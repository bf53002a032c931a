"""Packages for tests, as pip would install them."""

from __future__ import annotations


def installed(folder, name, group, points, module):
    """An installed package: a module and the metadata that names its entry points."""
    (folder / f"{name}.py").write_text(module)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "".join(f"{key} = {value}\n" for key, value in points.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}")
