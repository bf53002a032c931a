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
from blindspot.backend.training_sets.training_set import TrainingSet
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
    with st.expander("More settings"):
        fields = st.columns([2, 2, 1.5, 2, 4], vertical_alignment="bottom")
        about = {
            name: setting_field(place, ExportOptions, name)
            for name, place in zip(("negatives", "draw", "seed", "rows", "template"), fields, strict=True)
        }
    by = who.acting_name(open_study.labels_path)  # now: Streamlit makes the file outside of the page's session

    def archive_content() -> bytes:
        return download(open_study, "training-set", training_set.name, format, by, ExportOptions(**about)).content

    pairs = quantity(training_set.manifest["counts"]["pairs"], "pair")
    with columns[1]:
        st.download_button(
            f"Export {pairs}", archive_content, f"{training_set.name}-{format}.zip", key="export-set", on_click="ignore"
        )
