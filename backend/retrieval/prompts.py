"""The prompts stored with models, and the prompts with which known families of encoders were trained.

The prompts of a family are taken from its model cards. Without its prompts such a model still works, but gives worse
vectors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from blindspot.backend.core.manifest import read_object
from blindspot.backend.core.model_files import open_model
from blindspot.db.errors import BlindspotError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Task = Literal["query", "document"]  # the library's names of the two kinds of text
NAMES: dict[Task, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""The names of prompts that the library looks up for each kind of text."""
SEARCH = "Represent this sentence for searching relevant passages: "
INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"


@dataclass(frozen=True, slots=True)
class Family:
    """A family of encoders. pattern: a regular expression for the model's name. question, passage: its prompts."""

    name: str
    pattern: str
    question: str
    passage: str


FAMILIES = (
    Family("E5 with instructions", r"e5-mistral|e5-.*instruct", f"{INSTRUCT} ", ""),
    Family("E5", r"(^|[/_-])e5-(small|base|large)", "query: ", "passage: "),
    Family("BGE (English)", r"bge-(small|base|large)-en", SEARCH, ""),
    Family("BGE (Chinese)", r"bge-(small|base|large)-zh", "为这个句子生成表示以用于检索相关文章：", ""),
    Family("GTE with instructions", r"gte-qwen", f"{INSTRUCT} ", ""),
    Family("Nomic", r"nomic-embed", "search_query: ", "search_document: "),
    Family("Arctic 2", r"arctic-embed-[a-z]+-v2", "query: ", ""),
    Family("Arctic", r"arctic-embed", SEARCH, ""),
    Family("Qwen3-Embedding", r"qwen3-embedding", INSTRUCT, ""),
    Family("mxbai", r"mxbai-embed", SEARCH, ""),
    Family("EmbeddingGemma", r"embeddinggemma", "task: search result | query: ", "title: none | text: "),
)


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts that are put before questions and before passages; "" for no prompt."""

    question: str
    passage: str

    def __bool__(self) -> bool:
        return bool(self.question or self.passage)


def stored_prompts(model: SentenceTransformer) -> Prompts:
    """Return the prompts stored with a model that `encode_query` and `encode_document` would use."""
    return Prompts(prompt_before(model, "query"), prompt_before(model, "document"))


def prompt_before(model: Any, task: Task) -> str:
    """Return the prompt that a model's `encode_query` or `encode_document` puts before each text."""
    name = next((name for name in NAMES[task] if name in model.prompts), model.default_prompt_name)
    return (model.prompts.get(name) if name is not None else None) or ""


def family_of(model: str) -> Family | None:
    """Return the family of a model, recognised by its name or by the name recorded in its folder's config.json."""
    names = [model]
    try:
        config = Path(open_model(model).path) / "config.json"
        names.append(str(read_object(config).get("_name_or_path", "")) if config.is_file() else "")
    except BlindspotError:
        pass  # loading the model reports the error
    return next((family for family in FAMILIES for name in names if re.search(family.pattern, name.lower())), None)
