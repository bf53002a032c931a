"""Export a study as a retrieval task: a BEIR folder that `datasets` and MTEB can load as well.

corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv are in BEIR's format. README.md declares configurations for `datasets`.
They use qrels/SPLIT.jsonl, because all configurations of a folder must have the same file format. task.py declares an
MTEB task with these files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from blindspot.backend.core.manifest import atomic_folder, write_text
from blindspot.backend.core.study import Study
from blindspot.backend.data.exporting import export_passages, export_qrels, judgements_of
from blindspot.backend.data.formats import find_writer
from blindspot.backend.data.formats.base import Qrel
from blindspot.backend.data.formats.files import write_json_lines
from blindspot.backend.data.formats.tables import read_qrels
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import Missing, Refused

README = """---
configs:
- config_name: corpus
  data_files:
  - split: corpus
    path: corpus.jsonl
- config_name: queries
  data_files:
  - split: queries
    path: queries.jsonl
- config_name: default
  data_files:
  - split: {split}
    path: qrels/{split}.jsonl
---

# {name}

A retrieval task in BEIR's form: {passages}, {questions} with {judgements}. Made with Blindspot from a study whose
passages have the digest `{digest}`. The texts keep the licences of their authors.
"""
TASK = '''"""The MTEB task of this folder: `mteb.evaluate(model, {name}())`."""

from pathlib import Path

from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata


class {name}(AbsTaskRetrieval):
    ignore_identical_ids = {ignore}  # leaves the passage with the question's own id out of the question's list
    metadata = TaskMetadata(
        name="{name}",
        description="Exported from a Blindspot study.",
        dataset={{"path": str(Path(__file__).parent), "revision": "{digest}"}},
        type="Retrieval",
        category="t2t",
        eval_splits=["{split}"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
    )
'''


@dataclass(frozen=True, slots=True)
class ExportedTask:
    """An exported task folder and the numbers of its contents."""

    folder: Path
    passages: int
    questions: int
    judgements: int


def export_task(study: Study, folder: Path, split: str = "test", own_passages_left_out: bool = False) -> ExportedTask:
    """Write a task folder with the judged questions of a split, including questions without a relevant passage.

    Args:
        folder: a new folder; the task's name in task.py follows from its name.
        own_passages_left_out: state in task.py that the passage with a question's own id does not count.

    Raises:
        Refused: the folder exists. Missing: no question of the split is judged.
    """
    if folder.exists():
        raise Refused(f"{folder} exists; name another folder")
    if not folder.absolute().parent.is_dir():
        raise Refused(f"{folder.absolute().parent} is not a folder; name one that exists")
    judged = judgements_of(study, of_split := study.questions.all(split=split))
    questions = [question for question in of_split if question.id in judged]
    if not questions:
        raise Missing(f"no {split} question has gold passages; choose another --split, or import qrels")
    with atomic_folder(folder.absolute()) as building:
        (building / "qrels").mkdir()
        passages = export_passages(study, "beir", building / "corpus.jsonl").rows
        find_writer("questions", "beir").write_to(building / "queries.jsonl", questions)
        judgements = export_qrels(study, "beir", split, building / "qrels" / f"{split}.tsv").rows
        _write_json_qrels(building / "qrels" / f"{split}.tsv")
        name = "".join(word[:1].upper() + word[1:] for word in re.findall(r"[A-Za-z0-9]+", folder.name)) or "Task"
        name = name if name[0].isalpha() else f"Task{name}"
        facts = {"name": name, "split": split, "digest": study.corpus.digest}
        counts = {
            "passages": quantity(passages, "passage"),
            "questions": quantity(len(questions), "question"),
            "judgements": quantity(judgements, "judgement"),
        }
        write_text(building / "README.md", README.format(**facts, **counts))
        write_text(building / "task.py", TASK.format(**facts, ignore=own_passages_left_out))
    return ExportedTask(folder, passages, len(questions), judgements)


def _write_json_qrels(path: Path) -> None:
    """Write the qrels of a TSV file as JSON lines into the same folder."""
    qrels = (row for row in read_qrels(path) if isinstance(row, Qrel))
    records = ({"query-id": row.question_id, "corpus-id": row.passage_id, "score": row.grade} for row in qrels)
    write_json_lines(path.with_suffix(".jsonl"), records)
