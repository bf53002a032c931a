"""The export of a training set on the Training page: the format, its options, and the download."""

from __future__ import annotations

import streamlit as st

from blindspot.app import who
from blindspot.app.components.setting_fields import setting_field
from blindspot.app.markup import show, tag
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import quantity
from blindspot.backend.training_sets.export_options import ExportOptions
from blindspot.backend.training_sets.exports import EXPORTS
from blindspot.backend.training_sets.exports.base import ExportFormat
from blindspot.backend.training_sets.training_set import HARD, TrainingSet
from blindspot.backend.upkeep.downloads import download

USUAL = "sentence-transformers"


def export_form(open_study: Study, training_set: TrainingSet) -> None:
    """Show the choice of a format with its options, and the button that downloads the set; only people who may export
    see it.
    """
    if not who.may(open_study.labels_path, "export"):
        return
    show(tag("h2", "Export"))
    columns = st.columns([3, 2], vertical_alignment="bottom")
    names = EXPORTS.names()
    format = columns[0].selectbox(
        "Format", names, list(names).index(USUAL), format_func=lambda name: f"{name}: {EXPORTS.get(name).title}"
    )
    note = st.container()
    with st.expander("More settings"):
        fields = st.columns([2, 2, 1.5, 2, 4], vertical_alignment="bottom")
        about = {
            name: setting_field(place, ExportOptions, name)
            for name, place in zip(("negatives", "draw", "seed", "rows", "template"), fields, strict=True)
        }
    by = who.acting_name(open_study.labels_path)  # now: Streamlit makes the file outside of the page's session

    def archive_content() -> bytes:
        return download(open_study, "training-set", training_set.name, format, by, ExportOptions(**about)).content

    words, more = export_words(training_set, EXPORTS.get(format), ExportOptions(**about))
    with columns[1]:
        file = f"{training_set.name}-{format}.zip"
        st.download_button(words, archive_content, file, key="export-set", on_click="ignore")
    with note:
        show(tag("p", more, cls="convention") if more else "")


def export_words(training_set: TrainingSet, form: ExportFormat, options: ExportOptions) -> tuple[str, str]:
    """Return what an export writes, for its button, and one line more: which pairs it leaves out.

    No format has dropped pairs. One that takes a limited number of negatives or rows of a question counts questions.
    """
    counts = training_set.manifest["counts"]
    sources = counts["sources"]
    negatives = {source: n for source, n in sources["negative"].items() if form.has_easy or source in HARD}
    positives = sum(sources["positive"].values())
    pairs = quantity(positives + sum(negatives.values()), "pair")
    dropped = sum(sources.get("dropped", {}).values())
    without = f"Without the {quantity(dropped, 'dropped pair')}." if dropped else ""
    hard, rows = options.negatives or form.negatives, options.rows if form.has_rows else None
    limits = [f"at most {quantity(hard, 'hard negative')}"] if hard else []
    limits += [f"{'' if limits else 'at most '}{quantity(rows, 'row')} of a file"] if rows else []
    if not limits:
        return f"Export {pairs}", without
    taken = f"Of {pairs}, {' and '.join(limits)} for each question."
    questions = quantity(counts["questions"], "question")
    held = questions if rows else f"{questions} with {quantity(positives, 'positive')}"
    return f"Export {held}", f"{taken} {without}".strip()
