"""Measuring runs from Python: reports, comparisons, slices, and their plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.text.answers import DEFAULT_RULE
from blindspot.db.errors import BadInput
from blindspot.opened import OpenedStudy, as_list

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from blindspot.backend.core.result_table import Results

Table = Literal["relation", "bucket", "slice"]


class StudyMeasures(OpenedStudy):
    """Reports, comparisons, slices and plots."""

    def report(
        self,
        runs: str | Sequence[str] | None = None,
        by: Literal["relation", "bucket", "split", "slice"] | None = None,
        relevance: Kind = "answers",
        rule: str = DEFAULT_RULE,
        ks: int | Sequence[int] = (1, 5, 20, 100),
        measures: str | Sequence[str] = (),
    ) -> pd.DataFrame:
        """Return the accuracy of runs, one figure a row, as `blindspot report --csv` writes it.

        Args:
            runs: a name or several; None for all.
            ks: a cut-off or several.
            measures: a measure or several in addition to Success@k, as in `compare`.

        The columns are run, relevance, group, measure, k, value, n, units, n_groups, low, high and method.
        `attrs["convention"]` says how the figures were computed; `attrs["notes"]` holds warnings. Raises Missing,
        BadInput, Refused.
        """
        from blindspot.backend.evaluation.report import report

        names = None if runs is None else as_list(runs)
        cut_offs = [ks] if isinstance(ks, int) else ks
        made = report(self.study, names, by, relevance, rule, cut_offs, measures=as_list(measures))
        notes = [*made.notes, *(f"{run.name}: {note}" for run in made.runs for note in run.notes)]
        return _frame(made, convention=made.convention, notes=notes)

    def compare(
        self,
        a: str,
        b: str,
        k: int | None = None,
        by: Table | None = None,
        relevance: Kind = "answers",
        rule: str = DEFAULT_RULE,
        slice: str = "",
        measure: str = "success",
    ) -> pd.DataFrame:
        """Compare two runs, one group of questions a row, as `blindspot compare --csv` writes it.

        Args:
            k: cut-off of the groups and the conclusion; default 5 for Success@k, 10 for other measures.
            by: adds groups by relation, bucket or saved slice.
            relevance: "answers", "gold" or "labels".
            slice: an expression; only its questions count.
            measure: "success", "mrr", "ndcg", "map", "recall" or "r-precision"; capitals make no difference.

        `attrs` holds the conclusion, the reservation, the method and the notes. Raises Missing, BadInput, Refused.
        """
        from blindspot.backend.evaluation.comparison_report import ComparisonOptions, compare_with

        options = ComparisonOptions(k=k, by=by, relevance=relevance, rule=rule, slice=slice, measure=measure)
        made = compare_with(self.study, a, b, options)
        attributes = ("conclusion", "reservation", "method", "notes")
        return _frame(made, **{name: getattr(made, name) for name in attributes})

    def slices(
        self, a: str, b: str, k: int | None = None, slice: str = "", relevance: Kind = "answers"
    ) -> pd.DataFrame:
        """Return the slices in which the difference of two runs departs from the rest, as `compare --find-slices` does.

        The columns are slice, k, n, units, a, b, difference, low, high, outside, explained, p and p_adjusted;
        `attrs["method"]` explains the test. Raises Missing, BadInput.
        """
        from blindspot.backend.evaluation.slice_report import find_in_runs, method_note

        made = find_in_runs(self.study, (a, b), k, relevance, slice=slice)
        return _frame(made, method=method_note(made.found_slices))

    def causes(
        self, a: str, b: str | None = None, k: int | None = None, slice: str = "", relevance: Kind = "answers"
    ) -> pd.DataFrame:
        """Count the causes of misses of one run or two, one row per run and cause, as `blindspot misses --csv` does.

        The columns are run, k, questions, misses, cause, count, measured, share, low, high, found, found_measured,
        difference, difference_low, difference_high and examples (question ids, joined by spaces); `attrs` holds the
        method and the notes. Raises Missing, BadInput.
        """
        from blindspot.backend.evaluation.miss_report import MissOptions, misses

        made = misses(self.study, a, b, MissOptions(k=k, relevance=relevance, slice=slice))
        return _frame(made, method=made.table.method, notes=made.notes)

    def miss_causes(
        self, run: str, other: str | None = None, k: int = 20, slice: str = "", relevance: Kind = "answers"
    ) -> pd.DataFrame:
        """Return the causes of each miss of a run: one row per question, indexed by question id, and one column per
        cause.

        A value is True or False, or missing if a fact that the rule needs is unknown. `other` is the second run in
        which chance matches are looked for. Raises Missing, BadInput.
        """
        import pandas as pd

        from blindspot.backend.evaluation.cause_rules import ORDER
        from blindspot.backend.evaluation.miss_report import MissOptions, causes_of_misses

        options = MissOptions(k=k, relevance=relevance, slice=slice)
        found, ids = causes_of_misses(self.study, run, other or run, options)
        columns = {str(cause): pd.array(found.has_cause(cause), dtype="boolean") for cause in ORDER}
        frame = pd.DataFrame(columns, index=pd.Index(ids, name="question"))
        for cause in ORDER:
            frame.loc[~found.is_measured(cause), str(cause)] = pd.NA
        return frame

    def saved_slices(self) -> pd.DataFrame:
        """Return the saved slices, oldest first: slice, expression, made."""
        import pandas as pd

        from blindspot.backend.evaluation.saved_slices import saved_slices

        rows = [(each.name, each.expression, each.made) for each in saved_slices(self.study).values()]
        return pd.DataFrame(rows, columns=["slice", "expression", "made"])

    def save_slice(self, name: str, expression: str, replace: bool = False) -> str:
        """Save a slice by name, as the Slices page does, and return its expression in its simplest form.

        Raises BadInput for an invalid name or expression, Refused if the name is taken.
        """
        from blindspot.backend.evaluation.saved_slices import save

        return save(self.study, name, expression, replace).expression

    def per_question(self, run: str, measure: str = "success", k: int = 5, relevance: Kind = "answers") -> pd.Series:
        """Return a measure of each measured question, indexed by question id, for your own tests and plots.

        The values are numbers from 0 to 1, for Success@k too. Raises BadInput for a measure that needs gold or labels,
        Missing, Refused.
        """
        import pandas as pd

        from blindspot.backend.evaluation.comparison import measure as measured
        from blindspot.backend.evaluation.measures import measure_named

        chosen = measure_named(measure)
        side = measured(self.study, run, relevance)
        if k > side.k or k < 1:
            raise BadInput(f"k is {k}; {run} has {side.k} hits per question")
        ids = [question.id for question in side.questions]
        return pd.Series(
            side.values(chosen, k).astype(float), index=pd.Index(ids, name="question"), name=chosen.title_at(k)
        )

    def plot_relations(self, runs: str | Sequence[str], k: int = 20, relevance: Kind = "answers") -> Figure:
        """Return the Relations page's plot of Success@k by relation, a plotly figure."""
        from blindspot.analysis.relations import relation_order
        from blindspot.backend.evaluation.comparison import measure_all
        from blindspot.backend.evaluation.panel import Panel, relation_table
        from blindspot.backend.evaluation.report_plots import dumbbell

        names = as_list(runs)
        table = relation_table(Panel.of_runs(measure_all(self.study, names, relevance)), k)
        return dumbbell(table, names, sorted((row.group for row in table.rows), key=relation_order))

    def plot_frequency(self, runs: str | Sequence[str], k: int = 20, relevance: Kind = "answers") -> Figure:
        """Return the Relations page's plot of Success@k by number of mentions of the subject, a plotly figure."""
        from blindspot.backend.evaluation.comparison import measure_all
        from blindspot.backend.evaluation.panel import Panel, frequency_curves
        from blindspot.backend.evaluation.report_plots import curve_plot

        names = as_list(runs)
        return curve_plot(frequency_curves(Panel.of_runs(measure_all(self.study, names, relevance)), k), names)

    def plot_slices(self, a: str, b: str, k: int | None = None, slice: str = "", relevance: Kind = "answers") -> Figure:
        """Return a plot of the slices that `slices` finds: the difference of the two runs in each slice, with its
        interval.
        """
        from blindspot.backend.evaluation.report_plots import slice_plot
        from blindspot.backend.evaluation.slice_report import find_in_runs

        return slice_plot(find_in_runs(self.study, (a, b), k, relevance, slice=slice))

    def plot_causes(
        self, a: str, b: str | None = None, k: int | None = None, slice: str = "", relevance: Kind = "answers"
    ) -> Figure:
        """Return a plot of the table from `causes`: the share of each cause among missed and among found questions."""
        from blindspot.backend.evaluation.miss_report import MissOptions, misses
        from blindspot.backend.evaluation.report_plots import cause_plot

        return cause_plot(misses(self.study, a, b, MissOptions(k=k, relevance=relevance, slice=slice)).table)


def _frame(results: Results, **attributes: object) -> pd.DataFrame:
    made = results.figures_table().as_frame()
    made.attrs.clear()
    made.attrs.update(attributes)
    return made
