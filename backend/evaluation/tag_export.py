"""Export the tags of a study as CSV and JSON, with one row for each tag, question, run and person."""

from __future__ import annotations

import io
import json
import time

from blindspot.backend.core.spreadsheets import write_csv
from blindspot.backend.core.study import Study
from blindspot.db.tags import QuestionTag, Tags

COLUMNS = ("tag", "question", "text", "run", "annotator", "time")


def tag_rows(study: Study, authors: bool = True) -> list[dict[str, str]]:
    """Return the tags with the questions' texts and the columns COLUMNS. Run and person are "" if there is none.

    Args:
        authors: whether the reader may know who gave a tag; if not, the column is empty.
    """
    tags = Tags(study.labels_path).all_tags()
    texts = {question.id: question.text for question in study.questions.with_ids({each.question for each in tags})}
    return [_row(each, texts[each.question], authors) for each in tags]


def tags_as_csv(study: Study, authors: bool = True) -> str:
    """Return the rows as CSV, with texts escaped so that spreadsheets do not run them as formulas."""
    text = io.StringIO()
    write_csv(text, COLUMNS, tag_rows(study, authors))
    return text.getvalue()


def tags_as_json(study: Study, authors: bool = True) -> str:
    return json.dumps(tag_rows(study, authors), ensure_ascii=False, indent=2)


def _row(tag: QuestionTag, text: str, authors: bool) -> dict[str, str]:
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(tag.time))
    author = (tag.author or "") if authors else ""
    return dict(zip(COLUMNS, (tag.tag, tag.question, text, tag.run or "", author, when), strict=True))
