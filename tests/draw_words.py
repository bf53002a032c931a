"""Draw sentences and names of the repository, to be read by somebody who asks of each whether it needs translating.

    python -m tests.draw_words --seed 7 [--count 200]

Sentences come from docs, docstrings and texts that people see; names are those of classes, functions, parameters and fields.
Choose the seed after the words are written.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("app", "backend", "analysis", "db", "src/blindspot")
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"“])")
SHORTEST = 4  # words
SQL = re.compile(r"\b(SELECT|UPDATE|WHERE|INSERT|DELETE FROM|CREATE)\b")
GENERATED = "backend/data/encyclopedia"  # its texts are the passages of a generated collection


def sentences(text: str) -> Iterator[str]:
    """The sentences of some prose, without code, tables and lists of arguments."""
    text = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^( {4,}|\||#).*$", "", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in SENTENCE.split(" ".join(paragraph.split())):
            if len(sentence.split()) >= SHORTEST and not SQL.search(sentence):
                yield sentence


def drawn_from() -> dict[str, list[tuple[str, str]]]:
    """(what, where) of everything that can be drawn, by kind."""
    found: dict[str, list[tuple[str, str]]] = {"docs": [], "docstrings": [], "texts": [], "names": []}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if path.name not in ("commands.md", "python-reference.md"):  # made from the code
            where = str(path.relative_to(ROOT))
            found["docs"] += [(each, where) for each in sentences(path.read_text(encoding="utf-8"))]
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            _add_module(found, ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(ROOT)))
    return found


def _add_module(found: dict[str, list[tuple[str, str]]], tree: ast.Module, where: str) -> None:
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, *DEFINITIONS)) and (text := ast.get_docstring(node)):
            docstrings.add(ast.get_docstring(node, clean=False))
            found["docstrings"] += [(each, where) for each in sentences(text)]
        if isinstance(node, DEFINITIONS) and not node.name.startswith("__"):
            found["names"].append((node.name, where))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            found["names"] += [
                (f"{node.name}({each.arg})", where) for each in arguments if each.arg not in ("self", "cls")
            ]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found["names"].append((node.target.id, where))
    for node in ast.walk(tree) if GENERATED not in where else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in docstrings:
            found["texts"] += [(each, where) for each in sentences(node.value) if re.match(r"[A-Z].*[.!?]$", each)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=200, help="sentences, and as many names")
    options = parser.parse_args()
    chosen, found = random.Random(options.seed), drawn_from()
    prose = [(kind, *each) for kind in ("docs", "docstrings", "texts") for each in found[kind]]
    for number, (kind, text, where) in enumerate(chosen.sample(prose, options.count), 1):
        print(f"S{number}\t{kind}\t{where}\t{text}")
    for number, (name, where) in enumerate(chosen.sample(found["names"], options.count), 1):
        print(f"N{number}\tname\t{where}\t{name}")


if __name__ == "__main__":
    main()
