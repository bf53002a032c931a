"""The check of the open study and the figures from its labels, cached between reruns of a page."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st

from blindspot.app import who
from blindspot.app.judging_stores import judging_stores
from blindspot.backend.checking.check import Check, open_check
from blindspot.backend.checking.cleaned_file import Outcome
from blindspot.backend.checking.rules import RuleCurve, parse_rule
from blindspot.backend.checking.sample import PLAN, RateEstimate
from blindspot.backend.core.made_from import CHECK
from blindspot.backend.core.study import Study

SHORT = 0.05
"""If the half-width of the interval is at most this, the page suggests the comparison of rules as the next step."""


@dataclass(frozen=True)
class Labelled:
    """The figures that the labels so far prove.

    Attributes:
        rate: None before pairs are drawn. estimates, low, high: (n,) of the rate after each label.
        labels: the number of labelled pairs, with those that do not count yet.
    """

    rate: RateEstimate | None
    estimates: np.ndarray
    low: np.ndarray
    high: np.ndarray
    labels: int = 0

    @property
    def judged(self) -> int:
        return 0 if self.rate is None else self.rate.judged

    @property
    def all_judged(self) -> bool:
        return self.rate is not None and self.rate.judged == self.rate.drawn

    @property
    def is_enough(self) -> bool:
        """Whether the page suggests the rules now: all pairs are judged, or the interval is narrow enough."""
        return self.all_judged or (self.rate is not None and (self.rate.half_width or 1.0) <= SHORT)


def check_of(study: Study) -> Check:
    """Return the check that belongs to a study for which `is_check` is true. Raises BadInput if the file is gone."""
    return _check(study, str(study.folder), _file_version(study, "manifest.json"))


@st.cache_resource(max_entries=4, show_spinner=False)
def _check(_study: Study, folder: str, cache_version: int | None) -> Check:
    return open_check(_study)


def proven_labels(study: Study) -> Labelled:
    """Return the figures that people's labels prove. They are computed once after each label."""
    return _proven_labels(study, *_key(study))


def rules(study: Study) -> RuleCurve:
    """Return the comparison of the rules by people's labels. It takes seconds, and is computed once after each label."""
    return _rules(study, *_key(study))


def outcome(study: Study, rule: str | None) -> Outcome | None:
    """Return what `Check.outcome` says. It is computed once for a rule after each label."""
    return _outcome(study, rule, *_key(study))


def outlook(study: Study) -> str:
    """Return what `Check.outlook` says. It takes a second, and is computed once after each label."""
    return _outlook(study, *_key(study))


def _key(study: Study) -> tuple[object, ...]:
    return (
        str(study.folder),
        _file_version(study, "manifest.json"),
        _file_version(study, PLAN),
        judging_stores(study).labels.last_event,
    )


@st.cache_resource(max_entries=8, show_spinner=False)
def _proven_labels(_study: Study, *key: object) -> Labelled:
    found = check_of(_study)
    return Labelled(found.rate(), *found.trace(), len(found.labels))


@st.cache_resource(max_entries=8, show_spinner=False)
def _outlook(_study: Study, *key: object) -> str:
    return check_of(_study).outlook()


@st.cache_resource(max_entries=32, show_spinner=False)
def _outcome(_study: Study, rule: str | None, *key: object) -> Outcome | None:
    return check_of(_study).outcome(rules(_study), None if rule is None else parse_rule(rule))


@st.cache_resource(max_entries=2, show_spinner="Comparing the rules …")  # an entry has some figures of every pair
def _rules(_study: Study, *key: object) -> RuleCurve:
    return check_of(_study).rules()


def sees_rate(study: Study, figures: Labelled) -> bool:
    """Return whether the signed-in person may see the figures that labels prove; somebody who still judges blind may
    not.
    """
    return not figures.judged or who.may(study.labels_path, "see others' labels")


def _file_version(study: Study, name: str) -> int | None:
    try:
        return (study.folder / CHECK / name).stat().st_mtime_ns
    except OSError:
        return None
