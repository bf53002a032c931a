"""The part of the Judges tab that compares annotators, a cross-encoder and answer matching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import streamlit as st

from blindspot.analysis.accuracy import proportion
from blindspot.analysis.audit import Rate, rate
from blindspot.analysis.disagreements import (
    NO,
    SILENT,
    YES,
    Disagreements,
    Pattern,
    pairs_in_cell,
    tabulate,
    weights_by_rank,
)
from blindspot.app import study, url, who
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.empty_page import show_next_step
from blindspot.app.components.marks import methods_note, notice, percent
from blindspot.app.components.pager import pager
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.components.training import tabs
from blindspot.app.components.training.form import cross_encoders
from blindspot.app.components.training.pairs import pair_rows
from blindspot.app.markup import Html, div, join, link, show, span, tag, term, wide_head
from blindspot.backend.core.manifest import Manifest
from blindspot.backend.core.study import Study
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.text.number_words import quantity
from blindspot.backend.training_sets.judge_agreement import (
    ANSWERS,
    CROSS_ENCODER,
    DEPTH,
    PEOPLE,
    JudgeAgreement,
    judge_agreement,
)
from blindspot.db.labels import Labels
from blindspot.db.rights import SETTLERS

PER_PAGE = 25
ALL_RANKS = "all"
CUTS = ("0.5", "0.1", "0.3", "0.7", "0.9")
FORGET = ("cell", "ranks", "page")
WHO = {
    PEOPLE: term(
        PEOPLE,
        "Labels of annotators: positive is yes, related and negative are no. Unsure and disputed passages are left out.",
    ),
    CROSS_ENCODER: term(CROSS_ENCODER, "Yes if the probability is at least the threshold chosen above, otherwise no."),
    ANSWERS: term(ANSWERS, "Yes if the passage contains an answer (by the run's matching rule), otherwise no."),
}
MEANS = {
    (PEOPLE, YES): "Possible cause: the passage states the answer in other words, which both machines miss.",
    (PEOPLE, NO): "Possible cause: the passage contains the answer string by chance, which misleads both machines.",
    (CROSS_ENCODER, YES): "Possible cause: the passage is only on the topic, or the annotators were too strict.",
    (
        CROSS_ENCODER,
        NO,
    ): "With denoising by the cross-encoder, the passage would become a negative if its probability is low enough.",
    (ANSWERS, YES): "Possible cause: the passage contains the answer string by chance.",
    (
        ANSWERS,
        NO,
    ): "Possible cause: an alias or a paraphrase. With answer matching, the passage would become a negative.",
}


class ShownAgreement(NamedTuple):
    """The agreement of judges on the run, the cross-encoder and the threshold that the address names.

    Attributes:
        runs, models: what else can be chosen, besides `run` and `model`.
        default_run: the run that is offered first.
    """

    run: str
    model: str | None
    cut: str
    runs: list[str]
    models: list[str]
    default_run: str
    found: JudgeAgreement


def shown_agreement(open_study: Study, set_manifest: Manifest | None) -> ShownAgreement | None:
    """Return the agreement that the Judges tab shows; None without a run, and for people who must not see labels.

    Args:
        set_manifest: the current training set. The run offered first is one that it was mined from.
    """
    runs = study.runs(open_study)
    if not runs or not who.may(open_study.labels_path, "see others' labels"):
        return None
    over_train = [name for name, manifest in runs.items() if manifest.get("split") == "train"]
    models = [model for model in cross_encoders(open_study) if model in open_study.parts("scores")]
    usual = (tabs.pools(set_manifest, over_train) or list(runs)[-1:])[0]
    run = url.one_of("run", list(runs), usual)
    model = url.one_of("judge", models, models[0]) if models else None
    found = _agreement(open_study, run, runs[run].get("made"), model)
    return ShownAgreement(run, model, url.one_of("cut", CUTS, CUTS[0]), list(runs), models, usual, found)


def agreement_sentence(agreement: ShownAgreement | None, labels: str) -> str:
    """Say on what share of the pairs the judges agree; of people and one machine, what share of its yes and of its no is
    wrong, weighted by rank. "" if they cannot be compared.

    Args:
        labels: whose the labels are, as `labels_owner` says it.
    """
    if agreement is None or len(agreement.found.judges) < 2:
        return ""
    votes = agreement.found.votes(float(agreement.cut))
    voted = (votes != SILENT).all(0)
    if not voted.any():
        return ""
    votes, judges, rows = votes[:, voted], agreement.found.judges, agreement.found.rows[voted]
    agree = (votes == votes[0]).all(0)
    if len(judges) > 2 or PEOPLE not in judges:
        names = _all_agree_text(judges)
        return f"{names[:1].upper()}{names[1:]} agree on {_share_words(agree, rows)} of {agreement.run}."
    machine, name = votes[1 - judges.index(PEOPLE)], judges[1 - judges.index(PEOPLE)]
    whose, errors = f"The {name}'s", []
    for word, said in (("yes", YES), ("no", NO)):
        if (is_kind := machine == said).any():
            wrong = _weighted_share(agreement.found, np.flatnonzero(voted)[is_kind], ~agree[is_kind])
            errors.append(f"{whose} {word} is wrong in {_weighted_words(wrong)}")
            whose = "its"
    return f"{', '.join(errors)}, by {labels[:1].lower()}{labels[1:]}, weighted by rank."


def _weighted_share(agreement: JudgeAgreement, places: np.ndarray, chosen: np.ndarray) -> Rate:
    """Return the share of chosen pairs among some, (n,) places and (n,) bool, with each range of ranks weighted by what the
    run retrieved there.
    """
    judged = weights_by_rank(agreement.ranks, agreement.found)[places]
    return rate(chosen, np.ones(len(places), bool), judged, agreement.rows[places])


def _weighted_words(share: Rate) -> str:
    """Return a share with its interval over questions and n, as in "8.9% (95%: 3.1 to 22.8; 137 pairs)"."""
    interval = f"95%: {percent(share.low)} to {percent(share.high)}; " if share.low is not None else ""
    return f"{percent(share.value)}% ({interval}{quantity(share.passages, 'pair')})"


def _share_words(is_right: np.ndarray, question_rows: np.ndarray) -> str:
    """Return counts of pairs, and in brackets their share in percent with its interval over questions."""
    share = proportion(is_right, np.unique(question_rows, return_inverse=True)[1])
    has_interval = share.low is not None and share.high is not None
    interval = f", 95%: {percent(share.low)} to {percent(share.high)}" if has_interval else ""
    return f"{int(is_right.sum()):,} of {quantity(len(is_right), 'pair')} ({percent(share.value)}%{interval})"


def agreement_panel(open_study: Study, agreement: ShownAgreement | None, sentence: str = "") -> None:
    """Show where the judges differ on the passages of a run. sentence: what the page has not said about it yet."""
    show(style_sheet("training/training.css"))
    if not who.may(open_study.labels_path, "see others' labels"):
        who_may = " and ".join(SETTLERS)
        words = f"Judge agreement shows other people's labels. Only people who settle disputes can see it: {who_may}s."
        is_unknown = who.signed_in_person(open_study.labels_path) is None
        show(notice(words, join(" ", link("Sign in", url.JUDGE), ".") if is_unknown else ""))
        return
    if agreement is None:
        show(tag("p", "Judges are compared on the passages of a run."))
        show_next_step(open_study)
        return
    with st.container(key="judge-agreement"):
        chosen = _agreement_card(agreement, sentence)
    if chosen is not None:
        pattern, ranks = chosen
        found = agreement.found
        places = pairs_in_cell(found.ranks, found.votes(float(agreement.cut)), ranks, pattern)
        _pairs(open_study, found, agreement.run, places, pattern, ranks)


def _agreement_card(agreement: ShownAgreement, sentence: str) -> tuple[Pattern, tuple[int, int]] | None:
    """Show the card with its choices in its head, and return the chosen cell of its table: pattern and ranks."""
    found = agreement.found
    columns = st.columns([5, 3, 3, 2] if agreement.models else [5, 3], vertical_alignment="top")
    with columns[0]:
        can_compare = len(found.judges) > 1
        judged = f"{quantity(len(found.ranks), 'pair')} judged by {_all_agree_text(found.judges)}"
        left_out = f" {quantity(found.undecided, 'disputed or unsure pair')} left out" if found.undecided else ""
        title = judged if can_compare else "Annotators and automatic judges"
        show(tag("h2", title, span(left_out, cls="soft") if can_compare and left_out else ""))
    with columns[1]:
        url.select("Run", "run", agreement.runs, agreement.default_run, FORGET)
    if agreement.models:
        with columns[2]:
            url.select("Cross-encoder", "judge", agreement.models, agreement.models[0], FORGET)
        with columns[3]:
            url.select("Threshold", "cut", CUTS, CUTS[0], FORGET)
    lacking = []
    for judge, why in found.missing.items():
        more = (
            join(" ", link("Models", tabs.address("models")), " trains one and lets it score a run.")
            if judge == CROSS_ENCODER
            else ""
        )
        lacking.append(tag("p", tag("b", f"No {judge}. "), why, ".", more, cls="soft"))
    if not can_compare:
        show(*lacking, tag("p", "At least two of the three judges are needed for a comparison.", cls="soft"))
        return None
    votes = found.votes(float(agreement.cut))
    table = tabulate(found.ranks, votes)
    show(
        tag("p", sentence) if sentence else "",
        scrolling(_table(found, table, votes)),
        methods_note(_convention(found)),
        *lacking,
    )
    chosen = {_key(pattern): pattern for pattern in table.patterns}.get(url.value("cell"))
    where = {ALL_RANKS: (1, DEPTH), **{_ranks_text(each): each for each in table.spans}}.get(url.value("ranks"))
    return (chosen, where) if chosen and where else None


def _agreement(open_study: Study, run: str, fingerprint: str | None, model: str | None) -> JudgeAgreement:
    digest = ScoreStore.open(open_study, model).digest if model else None
    last = Labels(open_study.labels_path, read_only=True).last_event
    return _cached_agreement(open_study, study.questions_key(open_study), run, fingerprint, model, digest, last)


@st.cache_resource(max_entries=4, show_spinner="Comparing annotators, cross-encoder and answer matching …")
def _cached_agreement(
    _study: Study,
    questions: study.Key,
    run: str,
    fingerprint: str | None,
    model: str | None,
    digest: str | None,
    last_event: int,
) -> JudgeAgreement:
    return judge_agreement(_study, run, model)


def _key(pattern: Pattern) -> str:
    return "".join("y" if answer == YES else "n" for answer in pattern)


def _ranks_text(ranks: tuple[int, int]) -> str:
    if ranks == (1, DEPTH):
        return ALL_RANKS
    return str(ranks[0]) if ranks[0] == ranks[1] else f"{ranks[0]}–{ranks[1]}"


def _all_agree_text(judges: tuple[str, ...]) -> str:
    return "all three" if len(judges) == 3 else " and ".join(judges)


def _address(**changed: object) -> str:
    return url.href(url.TRAINING, {**st.query_params.to_dict(), "page": None, **changed})


def _table(agreement: JudgeAgreement, table: Disagreements, votes: np.ndarray) -> Html:
    """One row for each range of ranks with pairs, and one for all of them. The columns come in pairs: all judges agree,
    then each judge alone against the others.
    """
    three = len(agreement.judges) == 3
    groups = [tag("th", "all agree", colspan=3, scope="colgroup", cls="group")] if three else []
    groups += [
        tag("th", WHO[judge], " alone", colspan=2, scope="colgroup", cls="group") for judge in agreement.judges if three
    ]
    heads = []
    for pattern in table.patterns:
        judge = _dissenter(agreement.judges, pattern)
        words: Html | str = _yes_or_no(pattern[0] if judge is None else pattern[agreement.judges.index(judge)])
        if not three:
            words = f"both {words}" if judge is None else join("only ", WHO[judge], f" {words}")
        is_wide = "wide" if judge is None and not three else None  # a narrow window shows where two judges differ
        heads.append(tag("th", words, scope="col", cls=is_wide, title=_verdict_sentence(agreement.judges, pattern)))
    lines = []
    every = [len(set(pattern)) == 1 for pattern in table.patterns]
    for number, ranks in enumerate(table.spans):
        n = int(table.counts[number].sum())
        if not n:
            continue
        of = int(agreement.found[ranks[0] - 1 : ranks[1]].sum())
        cells = [
            _share_cell(agreement, int(each), _base(table.counts[number], table.patterns, pattern), ranks, pattern)
            for each, pattern in zip(table.counts[number], table.patterns, strict=True)
        ]
        share = span(f"of {of:,} retrieved", cls="interval")
        n_cell = tag("td", f"{n:,}", share, cls="figure wide")
        agree = _agreed_cell(int(table.counts[number][every].sum()), n, not three)
        lines.append(tag("tr", tag("th", _ranks_text(ranks), scope="row"), n_cell, agree, *cells))
    sums = table.counts.sum(0)
    n = int(sums.sum())
    cells = [
        _share_cell(
            agreement,
            int(count),
            _base(sums, table.patterns, pattern),
            (1, DEPTH),
            pattern,
            _weighted_of_its_yes(agreement, votes, pattern),
        )
        for count, pattern in zip(sums, table.patterns, strict=True)
    ]
    agree = _agreed_cell(int(sums[every].sum()), n, not three)
    lines.append(tag("tr", tag("th", "all", scope="row"), tag("td", f"{n:,}", cls="wide"), agree, *cells, cls="sum"))
    agree_head = tag("th", "agree", scope="col") if three else wide_head("agree")
    head = join(
        tag("tr", tag("th", "", scope="col"), tag("th", "", cls="wide"), *groups) if groups else "",
        tag("tr", tag("th", "rank", scope="col", cls="left"), wide_head("n"), agree_head, *heads),
    )
    return tag("table", tag("thead", head), tag("tbody", *lines), cls="figures judges")


def _weighted_of_its_yes(agreement: JudgeAgreement, votes: np.ndarray, pattern: Pattern) -> str:
    """Return the share in the row of all ranks of a cell where one of two judges alone says yes, weighted by rank; "" for
    other cells.
    """
    if len(pattern) != 2 or len(set(pattern)) == 1:
        return ""
    said_yes = np.flatnonzero((votes[pattern.index(YES)] == YES) & (votes != SILENT).all(0))
    alone = (votes[:, said_yes] == np.array(pattern)[:, None]).all(0)
    share = _weighted_share(agreement, said_yes, alone) if len(said_yes) else None
    if share is None or not alone.any():
        return ""
    return f"{percent(float(alone.mean()))}% of its yes, {percent(share.value)}% weighted"


def _base(counts: np.ndarray, patterns: Sequence[Pattern], pattern: Pattern) -> int:
    """Return of how many pairs a cell shows its share: of the row's; where one of two judges alone says yes, of those to
    which this judge says yes.
    """
    if len(pattern) != 2 or len(set(pattern)) == 1:
        return int(counts.sum())
    place = pattern.index(YES)
    return int(sum(count for count, each in zip(counts, patterns, strict=True) if each[place] == YES))


def main_action(shown: ShownAgreement | None) -> Html:
    """The button that lists the commonest disagreement of annotators and one machine; nothing with three judges."""
    if shown is None or len(shown.found.judges) != 2:
        return Html("")
    agreement = shown.found
    table = tabulate(agreement.ranks, agreement.votes(float(shown.cut)))
    counts = dict(zip(table.patterns, table.counts.sum(0).tolist(), strict=True))
    apart = {pattern: count for pattern, count in counts.items() if len(set(pattern)) > 1 and count}
    if not apart:
        return Html("")
    pattern = max(apart, key=apart.__getitem__)
    judge = agreement.judges[pattern.index(YES)]
    who_says = "annotators say" if judge == PEOPLE else f"the {judge} says"
    words = f"Read the {quantity(apart[pattern], 'pair')} where only {who_says} yes"
    address = f"{_address(cell=_key(pattern), ranks=ALL_RANKS)}#pairs"
    return div(link(words, address, cls="button main"), cls="action")


def _agreed_cell(number: int, n: int, is_wide: bool) -> Html:
    share = span(f"{percent(number / n)}%", cls="interval") if n else ""
    return tag("td", f"{number:,}", share, cls="figure wide" if is_wide else "figure")


def _dissenter(judges: tuple[str, ...], pattern: Pattern) -> str | None:
    """Return the judge who differs from the others; if two judges differ, the one who says yes. None if all agree."""
    if len(set(pattern)) == 1:
        return None
    lonely = YES if pattern.count(YES) == 1 else NO
    return judges[pattern.index(lonely)]


def _verdict_sentence(judges: tuple[str, ...], pattern: Pattern) -> str:
    judge = _dissenter(judges, pattern)
    return (
        MEANS.get((judge, pattern[judges.index(judge)]), "")
        if judge and len(judges) == 3
        else _pattern_words(judges, pattern)
    )


def _pattern_words(judges: tuple[str, ...], pattern: Pattern) -> str:
    return ", ".join(f"{judge}: {_yes_or_no(opinion)}" for judge, opinion in zip(judges, pattern, strict=True))


def _yes_or_no(answer: int) -> str:
    return "✓ yes" if answer == YES else "✕ no"


def _share_cell(
    agreement: JudgeAgreement, number: int, n: int, ranks: tuple[int, int], pattern: Pattern, weighted: str = ""
) -> Html:
    """weighted: the share in words, where it is not `number` of `n`."""
    is_two, is_agreed = len(pattern) == 2, len(set(pattern)) == 1
    wide = " wide" if is_two and is_agreed else ""
    key, where = _key(pattern), _ranks_text(ranks)
    chosen = url.value("cell") == key and url.value("ranks") == where
    if not number:
        return tag("td", "0", cls=f"soft{' chosen' if chosen else ''}{wide}")
    share = weighted or f"{percent(number / n)}%{' of its yes' if is_two and not is_agreed else ''}"
    words = join(f"{number:,}", span(share, cls="interval"))
    address = _address(cell=None if chosen else key, ranks=None if chosen else where)
    title = (
        "Hide these pairs"
        if chosen
        else f"Show these {quantity(number, 'pair')}: {_pattern_words(agreement.judges, pattern)}"
    )
    return tag(
        "td",
        link(words, address, title=title, aria_current="true" if chosen else None, data_focus=f"cell-{key}-{where}"),
        cls=f"figure{' chosen' if chosen else ''}{wide}",
    )


def _convention(agreement: JudgeAgreement) -> str:
    sample = "Judged" if PEOPLE in agreement.judges else "Scored"
    return (
        f"Small print: share of the row; where only one of two says yes, of its yes. {sample} pairs are not a random sample, so the table shows where judges "
        "differ, not how often they differ overall; the title weights each range of ranks by what the run retrieved there. Hover over a column head for an explanation; click a count to "
        "list its pairs."
    )


def _pairs(
    open_study: Study,
    agreement: JudgeAgreement,
    run: str,
    positions: np.ndarray,
    pattern: Pattern,
    ranks: tuple[int, int],
) -> None:
    pages = max(1, -(-len(positions) // PER_PAGE))
    page = url.number("page", 1, 1, pages)
    some = positions[(page - 1) * PER_PAGE : page * PER_PAGE].tolist()
    passages = open_study.corpus.passages([int(agreement.ordinals[place]) for place in some])
    lines = pair_rows(
        open_study,
        [
            (
                agreement.questions[agreement.rows[place]],
                passage.id,
                f"{agreement.ranks[place]}",
                agreement.labels[place] or "–",
                _probability(agreement.probabilities[place]),
                {YES: "✓ yes", NO: "no"}.get(int(agreement.answers[place]), "–"),
            )
            for place, passage in zip(some, passages, strict=True)
        ],
        a=run,
    )
    heads = ("question", "passage", "rank", "annotators", "cross-encoder", "answer")
    head = tag("tr", *(tag("th", words, scope="col", cls="left") for words in heads))
    where = f"rank {ranks[0]}" if ranks[0] == ranks[1] else f"ranks {ranks[0]}–{ranks[1]}"
    show(
        div(
            div(
                tag("h3", f"{quantity(len(positions), 'pair')} at {where}"),
                span(_pattern_words(agreement.judges, pattern), cls="soft"),
                cls="list-head",
            ),
            tag("p", _verdict_sentence(agreement.judges, pattern), cls="convention")
            if _dissenter(agreement.judges, pattern)
            else "",
            scrolling(tag("table", tag("thead", head), tag("tbody", *lines), cls="figures")),
            pager(len(positions), page, PER_PAGE, "pair", lambda number: _address(page=number if number > 1 else None))
            if pages > 1
            else "",
            cls="panel",
            id="pairs",
        )
    )


def _probability(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"
