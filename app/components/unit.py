"""The form in which a lead sets the study's unit of observation."""

from __future__ import annotations

import streamlit as st

from blindspot.app import who
from blindspot.app.components.marks import notice
from blindspot.app.components.setting_fields import setting_field
from blindspot.app.markup import show, tag
from blindspot.backend.core.settings import Settings
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import generalisation, set_unit
from blindspot.db.errors import BlindspotError


def unit_panel(study: Study) -> None:
    """Show an expander with the unit of observation and its consequences. People who may not set it see nothing."""
    if not who.may(study.labels_path, "set the unit"):
        return
    now = study.settings.unit
    with st.expander(f"Unit of observation: {now}"):
        chosen = setting_field(st, Settings, "unit", now, key="unit")  # type: ignore[arg-type]
        show(tag("p", generalisation(chosen), cls="soft"))
        if chosen == now:
            return
        try:
            set_unit(study, chosen, who.acting_name(study.labels_path))
        except BlindspotError as error:
            show(notice(str(error), kind="error"))
            return
    st.rerun()
