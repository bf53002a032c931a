"""False findings and power of the slice finder on simulated comparisons.

    python -m benchmarks.slice_finder [--studies 1000] [--seed 2024]

A study is 1,348 questions (2,400 with tiny slices) with relations, templates, question words, frequencies and lengths,
and the difference in success of two runs on each question. Without a true difference, a listed slice is a false
finding. For the power, a difference is planted in one relation or one frequency group. Every ten studies share their
questions; the differences are new in each study.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.coverage import upper_bound
from benchmarks.machine import machine
from blindspot.analysis.slices import MIN_QUESTIONS, slice_tests

SEED = 2024
STUDIES = 1000
STUDIES_PER_QUESTION_SET = 10
LEVEL = 0.05
EFFECTS = (0.05, 0.10, 0.20)


@dataclass(frozen=True)
class SimulatedQuestions:
    """Attributes of q questions, and the predicates that the finder would try on them."""

    relation: np.ndarray
    template: np.ndarray
    frequency: np.ndarray
    predicates: np.ndarray
    families: list[str]

    def __len__(self) -> int:
        return len(self.relation)


def simulated_questions(rng: np.random.Generator, n: int = 1348, relations: int = 24) -> SimulatedQuestions:
    """Return questions whose attributes depend on their relation, as those of EntityQuestions do."""

    def by_relation(values: list[float]) -> np.ndarray:
        return rng.choice(values, relations)[relation]

    relation = rng.choice(relations, n, p=rng.dirichlet(np.full(relations, 2.0)))
    frequency = np.clip(rng.normal(2.5, 1.2, n) + rng.normal(0, 0.8, relations)[relation], 0, None)
    attributes = {
        "relation": relation,
        "word": rng.choice(5, relations, p=[0.3, 0.3, 0.25, 0.1, 0.05])[relation],
        "group": np.digitize(frequency, np.quantile(frequency, np.arange(1, 8) / 8)),
        "length": np.digitize(by_relation([4, 5, 6, 7, 8, 10]) + rng.poisson(1.0, n), [6, 8, 11]),
        "answer_length": np.clip(rng.poisson(by_relation([0.3, 1, 1.6])), 0, 2),
        "overlap": np.digitize(rng.beta(2, 2, n) + rng.normal(0, 0.15, relations)[relation], [0.5, 0.95]),
        "title": (rng.random(n) < by_relation([0.05, 0.3, 0.7])).astype(int),
    }
    return _questions(relation, 13 * relation + rng.integers(0, 13, n), attributes["group"], attributes)


def tiny_slices(rng: np.random.Generator) -> SimulatedQuestions:
    """Return 2,400 questions in 60 relations of 40 questions, and a second attribute with 70 values."""
    relation = rng.permutation(np.repeat(np.arange(60), 40))
    attributes = {"relation": relation, "other": rng.integers(0, 70, 2400)}
    return _questions(relation, relation, rng.integers(0, 8, 2400), attributes)


def _questions(relation, template, frequency, attributes) -> SimulatedQuestions:
    pairs = [(family, values == value) for family, values in attributes.items() for value in np.unique(values)]
    kept = [(family, mask) for family, mask in pairs if MIN_QUESTIONS <= mask.sum() < len(mask)]
    return SimulatedQuestions(
        relation, template, frequency, np.array([mask for _, mask in kept]), [family for family, _ in kept]
    )


def swapped_lists(questions: SimulatedQuestions, rng: np.random.Generator) -> np.ndarray:
    """Draw the success of a strong and a weak run by relation, frequency and difficulty, and swap the two by a coin."""
    ease = rng.normal(0, 1, questions.relation.max() + 1)[questions.relation] + rng.normal(0, 1, len(questions))
    strong = rng.random(len(questions)) < _logistic(1.6 + ease)
    weak = rng.random(len(questions)) < _logistic(0.2 + ease + 0.4 * (questions.frequency - 3.5))
    return np.where(rng.random(len(questions)) < 0.5, 1.0, -1.0) * (strong.astype(float) - weak)


def rate_by_relation(questions: SimulatedQuestions, rng: np.random.Generator) -> np.ndarray:
    """Return discordance rates: 90% in three relations, 3% in the others."""
    hot = rng.choice(questions.relation.max() + 1, 3, replace=False)
    return np.where(np.isin(questions.relation, hot), 0.9, 0.03)


def rate_by_frequency(questions: SimulatedQuestions, rng: np.random.Generator) -> np.ndarray:
    """Return discordance rates: 70% for the questions of the two highest groups, 5% for the others."""
    return np.where(questions.frequency >= 6, 0.7, 0.05)


def rate_by_template(questions: SimulatedQuestions, rng: np.random.Generator) -> np.ndarray:
    """Return discordance rates that are drawn once for each template, near 0 or near 1 for most."""
    return rng.beta(0.3, 0.9, questions.template.max() + 1)[questions.template]


def constant_rate(rate: float) -> Callable[[SimulatedQuestions, np.random.Generator], np.ndarray]:
    return lambda questions, rng: np.full(len(questions), rate)


def differences(rates: Callable, delta: float = 0.0) -> Callable[[SimulatedQuestions, np.random.Generator], np.ndarray]:
    """Return a generator of differences with these discordance rates and the same mean `delta` for each question."""

    def draw(questions: SimulatedQuestions, rng: np.random.Generator) -> np.ndarray:
        rate = np.maximum(rates(questions, rng), delta)
        u = rng.random(len(questions))
        return np.where(u < (rate + delta) / 2, 1.0, np.where(u < rate, -1.0, 0.0))

    return draw


def shared_signs(questions: SimulatedQuestions, rng: np.random.Generator) -> np.ndarray:
    """Draw one sign for all questions of a template: its questions are not independent."""
    signs = rng.choice((-1.0, 1.0), questions.template.max() + 1)[questions.template]
    return signs * (rng.random(len(questions)) < 0.2)


NULLS: dict[str, tuple[Callable, Callable]] = {
    "lists swapped by a coin": (simulated_questions, swapped_lists),
    "discordance by relation": (simulated_questions, differences(rate_by_relation)),
    "discordance by frequency": (simulated_questions, differences(rate_by_frequency)),
    "discordance clustered by template": (simulated_questions, differences(rate_by_template)),
    "independent, 20% discordant": (simulated_questions, differences(constant_rate(0.2))),
    "tiny slices, 5% discordant": (tiny_slices, differences(constant_rate(0.05))),
}
"""No difference between the runs anywhere. By name: what draws the questions, and what draws the differences."""
EQUAL_DIFFERENCES: dict[str, tuple[Callable, Callable]] = {
    "10 points everywhere, discordance by relation": (simulated_questions, differences(rate_by_relation, 0.1)),
    "10 points everywhere, discordance by frequency": (simulated_questions, differences(rate_by_frequency, 0.1)),
    "10 points everywhere, discordance by template": (simulated_questions, differences(rate_by_template, 0.1)),
    "30 points everywhere, discordance by relation": (simulated_questions, differences(rate_by_relation, 0.3)),
    "5 points everywhere, tiny slices": (tiny_slices, differences(constant_rate(0.05), 0.05)),
}
"""The same difference in every slice, with other variances: the approximate part of the test."""
NOT_PROMISED: dict[str, tuple[Callable, Callable]] = {
    "one sign for all questions of a template": (simulated_questions, shared_signs),
}
"""Questions that are not independent."""


def plant(values: np.ndarray, mask: np.ndarray, effect: float, rng: np.random.Generator) -> np.ndarray:
    """Return the differences with `effect` added to the mean of a slice, by adding 1 to some of its values below 1."""
    below = np.flatnonzero(mask & (values < 1))
    chosen = below[rng.random(len(below)) < effect * mask.sum() / max(len(below), 1)]
    planted = values.copy()
    planted[chosen] += 1
    return planted


def false_findings(draw_questions: Callable, draw_differences: Callable, studies: int, seed: int) -> int:
    """Return in how many studies without a true difference between slices a slice is listed."""
    listed = 0
    for questions, rng in _studies(draw_questions, studies, seed):
        found = slice_tests(draw_differences(questions, rng), questions.predicates, questions.families)
        listed += bool(((found.p_adjusted <= LEVEL) & found.beyond_parts).any())
    return listed


def power(family: str, effect: float, studies: int, seed: int) -> tuple[int, float]:
    """Return in how many studies a slice of this family is listed in which an effect was planted, and the mean size of
    the slice.
    """
    listed, sizes = 0, []
    for questions, rng in _studies(simulated_questions, studies, seed):
        target = rng.choice([i for i, each in enumerate(questions.families) if each == family])
        values = plant(swapped_lists(questions, rng), questions.predicates[target], effect, rng)
        found = slice_tests(values, questions.predicates, questions.families)
        place = np.flatnonzero((found.first == target) & (found.second == target))[0]
        sizes.append(int(found.n[place]))
        listed += bool(found.p_adjusted[place] <= LEVEL)
    return listed, float(np.mean(sizes))


def _studies(draw_questions: Callable, studies: int, seed: int):
    rng = np.random.default_rng(seed)
    for study in range(studies):
        if study % STUDIES_PER_QUESTION_SET == 0:
            questions = draw_questions(rng)
        yield questions, rng


def _logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=STUDIES)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    print(machine())
    print(
        f"{options.studies:,} studies a row, seed {options.seed}; % of studies with a listed slice [upper 95% bound]\n"
    )
    failed = False
    for number, (name, (questions, values)) in enumerate({**NULLS, **EQUAL_DIFFERENCES, **NOT_PROMISED}.items()):
        listed = false_findings(questions, values, options.studies, options.seed + number)
        failed |= name in NULLS and listed > LEVEL * options.studies
        bound = 100 * upper_bound(listed, options.studies)
        print(f"{name:<52}{100 * listed / options.studies:>8.1f} [{bound:.1f}]", flush=True)
    print("\n% of studies that list the planted slice\n")
    for family in ("relation", "group"):
        for effect in EFFECTS:
            listed, size = power(family, effect, options.studies, options.seed)
            name = f"{100 * effect:.0f} points in one {family} (mean {size:.0f} questions)"
            print(f"{name:<52}{100 * listed / options.studies:>8.1f}", flush=True)
    print(f"\nat most 5% false findings under each null: {'no' if failed else 'yes'}")


if __name__ == "__main__":
    main()
