"""How many misses of real questions have doubtful gold: the estimate of a gold check, and other misses read apart.

python -m benchmarks.doubtful_gold STUDY [--judge mine] [--run minilm-dev]

STUDY is that of `python -m benchmarks.study`, with a feature judge: `blindspot retrieve --with bm25 --split train`,
`blindspot judge learn mine --run bm25-train --encoder minilm`, `blindspot judge run mine --run bm25-dev`. It is not changed.

One reader judged each passage by the rule "does this passage state the fact that the question asks", without seeing scores:
first the 40 misses that the check draws (set `drawn`), then 100 others drawn uniformly (set `read`). Of a miss with several gold
passages the reader went on until one stated the fact. `gold_verdicts.tsv` holds ids and verdicts.

At the end, another signal that needs no label is held against all verdicts: how well the answer's sentence tells the relation. A
classifier learns the relation from the sentences with the answer in the training questions' gold passages (distant supervision),
with subject and answer masked. Gold made by matching is wrong often, but at random, so words that state a relation still stand out.
"""

from __future__ import annotations

import argparse
import csv
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.machine import machine
from blindspot.analysis.accuracy import proportion
from blindspot.analysis.judge_quality import weighted_auc
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import units_of
from blindspot.backend.data.importing.gold import find_ordinals
from blindspot.backend.interventions.sentences import answer_sentence, sentences
from blindspot.backend.text.answers import DEFAULT_RULE, rule_for
from blindspot.backend.training_sets.gold_checks import (
    SIZE,
    Claim,
    GoldCheck,
    claims_of,
    gold_estimates,
    outcome_of,
    queue_gold_check,
)
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.records import Passage, Question

VERDICTS = Path(__file__).parent / "gold_verdicts.tsv"
READER = "reader"
LABELS = {"positive", "negative", "unsure"}

# Settings, fixed before the first verdict.
K, SEED = 20, 0
GOLD_EACH = 3  # gold passages of a training question from which the relation is learned


def verdicts() -> dict[str, dict[tuple[str, str], str]]:
    """Return the verdict on each (question, passage), by set."""
    by_set: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    with open(VERDICTS, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            by_set[row["set"]][row["question"], row["passage"]] = row["verdict"]
    return by_set


def label(study: Study, judged: dict[tuple[str, str], str]) -> None:
    People(study.labels_path).add(READER)
    store = Labels(study.labels_path, passages=study.corpus.ordinals)
    for number, ((question, passage), verdict) in enumerate(judged.items()):
        assert verdict in LABELS, verdict
        store.add(READER, LabelEvent(f"verdict-{number}", "label", question, (Choice(passage, verdict),)))


def share(study: Study, claims: Sequence[Claim], doubtful: np.ndarray) -> str:
    questions = study.questions.with_ids([claim.question for claim in claims])
    found = proportion(doubtful, units_of(questions, study.settings.unit).codes)
    value, low, high = found.percent
    return f"{int(doubtful.sum())} of {len(claims)}: {value:.0f}% ({low:.0f} to {high:.0f})"


def read_apart(study: Study, claims: Sequence[Claim], judged: dict[tuple[str, str], str]) -> None:
    """Print the share of the misses that were read, all together, by relation, and how the judge ranks them."""
    asked = {question for question, _ in judged}
    outcomes = {claim.question: outcome_of(claim, judged, False) for claim in claims if claim.question in asked}
    read = [claim for claim in claims if outcomes.get(claim.question) in ("stated", "doubtful")]
    doubtful = np.array([outcomes[claim.question] == "doubtful" for claim in read])
    print(f"Read apart, uniformly drawn: {share(study, read, doubtful)}; {len(asked) - len(read)} left open.")
    doubt = np.array([claim.doubt for claim in read])
    print(f"  the judge's doubt ranks them with an AUC of {weighted_auc(doubt, doubtful, np.ones(len(read))):.2f}")
    by: dict[str, list[bool]] = defaultdict(list)
    for claim, is_doubtful in zip(read, doubtful.tolist(), strict=True):
        by[study.questions.with_ids([claim.question])[0].relation or ""].append(is_doubtful)
    for relation, found in sorted(by.items(), key=lambda item: -sum(item[1]) / len(item[1])):
        print(f"  {relation}: {sum(found)} of {len(found)}")


def told_relation(study: Study, judged: dict[tuple[str, str], str]) -> None:
    """Print how the probability of the question's relation, given the answer's sentence, ranks passages that state the fact."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    train = [each for each in study.questions.all(split="train") if each.gold and each.relation]
    asked = study.questions.with_ids(list(dict.fromkeys(question for question, _ in judged)))
    known = find_ordinals(
        study.corpus, {id for each in train for id in each.gold[:GOLD_EACH]} | {id for _, id in judged}
    )
    passages = dict(zip(known.values(), study.corpus.passages(list(known.values())), strict=True))
    told = [
        (text, each.relation)
        for each in train
        for id in each.gold[:GOLD_EACH]
        if id in known and (text := masked_sentence(each, passages[known[id]]))
    ]
    words = TfidfVectorizer(sublinear_tf=True, min_df=3, token_pattern=r"\w+")
    model = LogisticRegression(C=3, class_weight="balanced", max_iter=300)
    model.fit(words.fit_transform([text for text, _ in told]), [relation for _, relation in told])
    relations = {name: column for column, name in enumerate(model.classes_)}
    by_id = {each.id: each for each in asked}
    scores, stated = [], []
    for (question, id), verdict in judged.items():
        column = relations.get(by_id[question].relation or "")
        if verdict == "unsure" or column is None:
            continue
        text = masked_sentence(by_id[question], passages[known[id]])
        scores.append(model.predict_proba(words.transform([text]))[0][column] if text else 0.0)
        stated.append(verdict == "positive")
    area = weighted_auc(np.array(scores), np.array(stated), np.ones(len(stated)))
    print(
        f"The relation told by the answer's sentence, learned from {len(told):,} sentences of training gold: "
        f"AUC {area:.2f} over {len(stated)} verdicts on pairs, {sum(stated)} of them positive"
    )


def masked_sentence(question: Question, passage: Passage) -> str:
    """Return the passage's sentence with an answer, subject and answer masked, the words between the two marked once more, and
    those beside the answer; "" without such a sentence.
    """
    parts = sentences(passage.text)
    at = answer_sentence(parts, question.text, question.answers, rule_for(question, DEFAULT_RULE))
    if at is None:
        return ""
    text, subject = parts[at], question.subject or ""
    names = [
        (subject, "SUBJ"),
        (subject.split()[-1] if subject else "", "SUBJ"),
        *((a, "ANSW") for a in question.answers),
    ]
    for name, mask in names:
        if name:
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", f" {mask} ", text, flags=re.IGNORECASE)
    tokens = re.findall(r"\w+", text)
    subjects, answers = ([i for i, each in enumerate(tokens) if each == mask] for mask in ("SUBJ", "ANSW"))
    more = ["TITLE"] if subject.casefold() == passage.title.casefold() else []
    if subjects and answers:
        start, end = sorted(min(((i, j) for i in subjects for j in answers), key=lambda pair: abs(pair[0] - pair[1])))
        more += [f"between_{each}" for each in tokens[start + 1 : end][:8]]
    for i in answers[:1]:
        more += [f"near_{each}" for each in (*tokens[max(0, i - 3) : i], *tokens[i + 1 : i + 3])]
    return " ".join([*tokens, *more])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("--judge", default="mine")
    parser.add_argument("--run", default="minilm-dev")
    arguments = parser.parse_args()
    judged = verdicts()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "study"
        shutil.copytree(arguments.study, copy, copy_function=_linked)
        study = Study.open(copy)
        check = GoldCheck("misses", arguments.run, K, "answers", judge=arguments.judge, seed=SEED)
        queue_gold_check(study, "gold", check, SIZE)
        label(study, judged["drawn"])
        print(gold_estimates(study)[0].sentence())
        read_apart(study, claims_of(study, check)[0], judged["read"])
        told_relation(study, judged["drawn"] | judged["read"])
    print(machine())


def _linked(source: str, target: str) -> None:
    """Copy labels.db, which changes, and link everything else."""
    if Path(source).name.startswith("labels.db"):
        shutil.copy2(source, target)
    else:
        Path(target).symlink_to(Path(source).resolve())


if __name__ == "__main__":
    main()
