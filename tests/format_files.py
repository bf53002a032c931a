"""A small valid file of every external format, and a small study to import them into."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blindspot.backend.core.study import Study
from blindspot.db.records import Passage, Question
from tests.studies import make_study

PASSAGES = [
    Passage(
        "1",
        "Ada Lovelace",
        "Ada Lovelace was an English mathematician, born in London on 10 December 1815, who wrote the first programs.",
    ),
    Passage(
        "2",
        "Arve Furset",
        'Arve Furset, known as "Furset", is a Norwegian composer and pianist who was born in Askvoll in December 1964.',
    ),
    Passage(
        "3",
        "Rome",
        "Rome is the capital of Italy, a city on the river Tiber which is said to have been founded by Romulus in 753 BC.",
    ),
    Passage(
        "4",
        "Askvoll",
        "Askvoll is a village in the west of Norway, on the coast, where the composer Arve Furset grew up among fishermen.",
    ),
    Passage(
        "5",
        "",
        "Untitled words about nothing in particular, with an é and a ü and 東京 in them, to see that letters survive.",
    ),
]
QUESTIONS = [
    Question(
        "11",
        "where was arve furset born",
        ("Askvoll", "Norway"),
        relation="P19",
        subject="Arve Furset",
        dataset="small",
        split="dev",
        gold=("2",),
    ),
    Question("12", "what is italy's capital", ("Rome",), dataset="small", split="dev", gold=("3",)),
    Question("13", 'who wrote "the first programs"', ("Ada Lovelace", "Ada's"), dataset="small", split="test"),
]


@dataclass(frozen=True)
class Sample:
    """A valid file. `rows`: number of rows that an import accepts."""

    kind: str
    format: str
    name: str
    data: bytes
    rows: int
    arguments: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path, data: bytes | None = None) -> Path:
        path = folder / self.name
        path.write_bytes(self.data if data is None else data)
        return path

    def bring(self, study: Study, path: Path, **more: Any):
        """Import it as its kind."""
        from blindspot.backend.data.importing import importer as importing
        from blindspot.backend.data.importing import qrels as importing_qrels
        from blindspot.backend.data.importing import runs as importing_runs

        take = {
            "passages": importing.import_passages,
            "questions": importing.import_questions,
            "qrels": importing_qrels.import_qrels,
            "runs": importing_runs.import_run,
        }[self.kind]
        return take(
            study,
            path,
            **{"name": "run", **self.arguments, **more} if self.kind == "runs" else {**self.arguments, **more},
        )


def contexts(kind: str) -> list[dict]:
    return [
        {
            ("id" if kind == "dpr" else "docid"): p.id,
            "title": p.title,
            "text": p.text,
            "score": str(9.5 - i),
            "has_answer": i == 0,
        }
        for i, p in enumerate(PASSAGES[1:4])
    ]


def _lines(*records: object) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False).encode()


TRAINING = [
    {
        "dataset": "nq",
        "question": "where was furset born",
        "answers": ["Askvoll"],
        "positive_ctxs": [
            {"title": "Arve Furset", "text": PASSAGES[1].text, "score": 1000, "title_score": 1, "passage_id": "wiki:2"}
        ],
        "negative_ctxs": [],
        "hard_negative_ctxs": [{"title": "Rome", "text": PASSAGES[2].text, "psg_id": "3"}],
    },
    {
        "question": "capital of italy",
        "answers": ["Rome"],
        "positive_ctxs": [{"title": "Rome", "text": "“" + PASSAGES[2].text}],
        "negative_ctxs": [],
        "hard_negative_ctxs": [],
    },
    {"question": "who", "answers": [], "positive_ctxs": [], "negative_ctxs": [], "hard_negative_ctxs": []},
]
POPQA = (
    "id\tsubj\tprop\tobj\tsubj_id\tprop_id\tobj_id\ts_aliases\to_aliases\ts_uri\to_uri\ts_wiki_title\to_wiki_title\ts_pop\to_pop\tquestion\t"
    "possible_answers\n"
    '4222362\tGeorge Rankin\toccupation\tpolitician\t1\t22\t2\t"[""G. Rankin""]"\t[]\tu\tu\tGeorge Rankin\tPolitician\t142\t25692\t'
    'What is George Rankin\'s occupation?\t"[""politician"", ""political leader""]"\n'
)
SAMPLES = [
    Sample("passages", "msmarco", "collection.tsv", b'0\tThe first passage.\n1\tThe second "one", as it is.\n', 2),
    Sample(
        "passages",
        "passage-jsonl",
        "corpus.jsonl",
        _lines({"_id": "a", "title": "T", "text": "x y", "metadata": {}}),
        1,
    ),
    Sample("passages", "psgs", "psgs.tsv", b'id\ttext\ttitle\n1\t"He said ""hi"""\tHim\n2\tplain\tTitle\n', 2),
    Sample("questions", "dpr-training", "biencoder-nq-train.json", _json(TRAINING), 3),
    Sample(
        "questions",
        "dpr-csv",
        "nq-dev.qa.csv",
        "who sang it\t['Ada', \"Bo's\"]\nwhere\u2019s rome\t['Italy']\n".encode(),
        2,
    ),
    Sample(
        "questions",
        "beir",
        "queries.jsonl",
        _lines({"_id": "q1", "text": "who?", "metadata": {}}),
        1,
        {"split": "test"},
    ),
    Sample("questions", "msmarco", "queries.dev.small.tsv", b"1048585\twhat is paula deen's brother\n2\twhy\n", 2),
    Sample(
        "questions",
        "nq-open",
        "NQ-open.train.jsonl",
        _lines({"question": "who is ada", "answer": ["a mathematician"]}),
        1,
    ),
    Sample(
        "questions",
        "question-jsonl",
        "mine.jsonl",
        _lines({"id": "x", "question": "who?", "answers": ["a"], "split": "dev"}),
        1,
    ),
    Sample("passages", "table", "notes.csv", b'id,title,text\na,One,"A text, of\ntwo lines"\nb,,Another\n', 2),
    Sample(
        "questions",
        "table",
        "asked.csv",
        b'id,question,answers,split,gold\nx1,who?,"[""a"", ""b""]",dev,2\nx2,where?,Rome,test,\n',
        2,
    ),
    Sample("qrels", "table", "judged.csv", b"query-id,corpus-id,score\n11,4,2\n12,1,0\n", 2),
    Sample("qrels", "trec", "dev.qrels", b"11 0 2 1\n11 0 4 2\n12 0 1 0\n", 3),
    Sample("qrels", "beir", "test.tsv", b"query-id\tcorpus-id\tscore\n11\t4\t1\n13\t1\t2\n", 2),
    Sample("runs", "table", "run.csv", b"qid,docid,rank,score\n11,2,1,9.5\n11,4,2,8.5\n12,3,1,10\n", 2),
    Sample("runs", "trec", "run.trec", b"11 Q0 2 1 9.5 tag\n11 Q0 4 2 8.5 tag\n12 Q0 3 1 1e1 tag\n", 2),
    Sample("runs", "msmarco", "run.tsv", b"11\t2\t1\n11\t4\t2\n12\t3\t1\n", 2),
    Sample(
        "runs",
        "dpr",
        "dpr.json",
        _json([{"question": q.text, "answers": list(q.answers), "ctxs": contexts("dpr")} for q in QUESTIONS]),
        3,
    ),
    Sample(
        "runs",
        "pyserini",
        "pyserini.json",
        _json(
            {
                q.id: {"question": q.text, "answers": list(q.answers), "contexts": contexts("pyserini")}
                for q in QUESTIONS
            }
        ),
        3,
    ),
]


def names(samples: list[Sample]) -> list[str]:
    return [f"{sample.kind}-{sample.format}" for sample in samples]


def study_for(sample: Sample, folder: Path, templates: dict[bool, Path]) -> Study:
    """Return a new study for the sample: empty for passages, else a (fast) copy of a study with PASSAGES and
    QUESTIONS.
    """
    empty = sample.kind == "passages"
    if empty not in templates:
        place = folder.parent / f"template-{empty}-{folder.name}"
        made = Study.create(place) if empty else make_study(place, PASSAGES, QUESTIONS)
        made.questions.close()
        templates[empty] = place
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(templates[empty], folder)
    return Study(folder)


def contents(study: Study) -> dict:
    """Return the contents of a study: labels.db by its rows, other files by their bytes."""
    tables = ("question", "import_record", "gold_match")
    rows = [study.questions.connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in tables]
    files = {
        p.relative_to(study.folder): p.read_bytes()
        for p in study.folder.rglob("*")
        if p.is_file() and "labels.db" not in p.name and p.suffix != ".lock"  # an empty lock file remains
    }
    return {"labels": rows, **files}
