"""A small study in which `ann` has labelled every question, and commands on it."""

import gc
from pathlib import Path

from typer.testing import CliRunner

from blindspot.backend.core.study import Study
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from tests.studies import births, make_study, people


def labelled_study(folder: Path) -> Study:
    passages = people(12)
    made = make_study(folder, passages, births(passages))
    People(made.labels_path).add("ann")
    store = Labels(made.labels_path, passages=made.corpus.ordinals)
    for number, question in enumerate(made.questions.all()):
        store.add("ann", LabelEvent(f"e{number}", "label", question.id, (Choice("p0", "negative"),)))
    store.close()
    made.questions.close()
    gc.collect()  # only the garbage collector closes an unreferenced connection
    return made


def command(study: Study | Path, *words: object, code: int = 0) -> str:
    """Run a command on a study in this process, check its exit code, and return what it said."""
    from blindspot.app.cli import app

    done = CliRunner().invoke(app, [*map(str, words), "--study", str(getattr(study, "folder", study))])
    said = done.output + (str(done.exception) if done.exception and done.exit_code else "")
    assert done.exit_code == code, said
    return said
