"""Fine-tune on the questions of one relation: choose the training questions, their wording, and the initial model.

In EntityQuestions (Sciavolino et al. 2021), section 4.2, a model is trained on one relation's questions and measured on
questions of the same relation about other entities. The triples of the training questions share no words with those of
the measured questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from blindspot.backend.core.manifest import atomic_folder
from blindspot.backend.data.encyclopedia import SECOND_WORDINGS
from blindspot.backend.data.formats.entityquestions import TEMPLATES
from blindspot.backend.experiments.hits import DenseHits, Index, RunPart
from blindspot.backend.experiments.parts import Part, QuestionSelection, StudyEncoder
from blindspot.backend.experiments.plan import Setting
from blindspot.backend.experiments.trainings import DualEncoder, TrainingData
from blindspot.backend.progress import Progress
from blindspot.backend.text.answers import STOP_WORDS
from blindspot.backend.text.gold_matching import lower_tokens
from blindspot.backend.training.examples import Example, TrainingExamples, TrainingSetExamples
from blindspot.backend.training.initial_model import ModelShape
from blindspot.db.errors import BadInput
from blindspot.db.records import Question

if TYPE_CHECKING:
    from blindspot.backend.experiments.workbench import Workbench

Words = Literal["subject and answers", "subject"]
WORDINGS = {
    **SECOND_WORDINGS,
    **{key.removesuffix("_similar"): wording for key, wording in TEMPLATES.items() if key.endswith("_similar")},
}
"""A second wording of each relation's question: the paper's if it has one, else one that is ours."""


def words_of(question: Question, word_kind: Words) -> set[str]:
    """Return the lower-case words of a question's triple, without punctuation and without stop words, because nearly
    all triples share stop words.
    """
    texts = [question.subject or question.text, *(question.answers if word_kind == "subject and answers" else ())]
    return {token for text in texts for token in lower_tokens(text) if token[0].isalnum()} - STOP_WORDS


@dataclass(frozen=True)
class SharedWordFilter:
    """A filter for training questions: keeps a question if no word of its triple occurs in the triple of a measured
    question.
    """

    asked: QuestionSelection
    which: Words

    def kept_question_ids(self, bench: Workbench) -> Callable[[Question], bool]:
        tested = {word for question in self.asked.questions_of(bench) for word in words_of(question, self.which)}
        return lambda question: tested.isdisjoint(words_of(question, self.which))


@dataclass(frozen=True)
class AdaptedTrainingData(Part):
    """A training set without the questions that share words with the measured questions, and optionally in another
    wording.

    wordings: (relation, template with [X] for the subject). The examples are read from the whole set, and nothing is
    stored.
    """

    whole: TrainingData
    apart: tuple[SharedWordFilter, ...] = ()
    wordings: tuple[tuple[str, str], ...] = ()

    def title(self) -> str:
        return "adapted training set"

    @property
    def questions(self) -> tuple[str, ...]:
        return self.whole.questions

    @property
    def relations(self) -> tuple[str, ...]:
        return self.whole.relations

    @property
    def limit(self) -> int | None:
        return self.whole.limit

    def finished(self, bench: Workbench) -> bool:
        return self.whole.finished(bench)

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        """Do nothing, because the examples are read from the whole set."""

    def examples(self, bench: Workbench) -> TrainingExamples:
        whole, tests = self.whole.examples(bench), [apart.kept_question_ids(bench) for apart in self.apart]
        questions = bench.questions.with_ids(whole.ids if isinstance(whole, TrainingSetExamples) else [])
        numbers = [number for number, question in enumerate(questions) if all(keeps(question) for keeps in tests)]
        texts = {}
        for number in numbers:
            relation, subject = questions[number].relation, questions[number].subject
            wording = None if relation is None else dict(self.wordings).get(relation)
            if wording is not None and subject:
                texts[number] = wording.replace("[X]", subject)
        return _AdaptedExamples(whole, numbers, texts)


class _AdaptedExamples:
    """A subset of a training set's examples, in which some questions are reworded."""

    def __init__(self, all_examples: TrainingExamples, kept_rows: Sequence[int], texts: Mapping[int, str]):
        self._whole, self._kept, self._texts = all_examples, kept_rows, texts

    def __len__(self) -> int:
        return len(self._kept)

    def __getitem__(self, index: int) -> Example:
        number = self._kept[index]
        example = self._whole[number]
        return replace(example, question=self._texts.get(number, example.question))


@dataclass(frozen=True)
class ReshapedEncoder(Part):
    """The initial encoder before training, modified to have two towers, fewer layers or another pooling."""

    start: StudyEncoder
    shape: ModelShape

    def title(self) -> str:
        return "preparing the initial model"

    def finished(self, bench: Workbench) -> bool:
        return (bench.path("models", bench.name(self)) / "training.json").is_file()

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from blindspot.backend.training.checkpoints import write_training_json
        from blindspot.backend.training.initial_model import load_initial_model

        start = bench.settings.encoders[self.start.encoder]
        with atomic_folder(bench.path("models", name)) as building:
            load_initial_model(start, self.shape, "cpu").save_pretrained(str(building), create_model_card=False)
            write_training_json(
                building, {"kind": "dual encoder", "start": asdict(start), "settings": asdict(self.shape), "name": name}
            )


def encoder_before_training(setting: Setting) -> Part:
    """Return the encoder before fine-tuning: the initial model, modified according to the settings."""
    shape = setting.settings(0).shape
    if shape.layers is None and shape.pooling is None and shape.normalise is None:
        return setting.first_encoder
    return ReshapedEncoder(setting.first_encoder, shape)


class FineTuning(NamedTuple):
    """The training data, and the tower to train if only one is trained."""

    data: tuple[TrainingData | AdaptedTrainingData, ...]
    tower: Literal["question", "passage"] | None = None

    def models(self, setting: Setting) -> list[DualEncoder]:
        """Return a model for each seed."""
        return [
            DualEncoder(self.data, setting.settings(seed, only=self.tower), setting.first_encoder)
            for seed in setting.seeds
        ]

    def hits(self, setting: Setting, k: int, selection: QuestionSelection) -> list[RunPart]:
        """Return a run for each seed. If the passage tower is not trained, the index is that of the initial model."""
        same = self.tower == "question" and not {"similarity", "normalise"} & set(dict(setting.training))
        return [
            DenseHits(selection, k, Index(encoder_before_training(setting)), model)
            if same
            else DenseHits(selection, k, Index(model))
            for model in self.models(setting)
        ]


def relation_data(setting: Setting, train: Sequence[str], relation: str) -> TrainingData:
    """Return a relation's training questions.

    Negatives are BM25's passages without an answer. For a question without gold passages, BM25's highest-ranked passage
    with an answer is the positive.
    """
    return setting.data_by_answers(train, relations=(relation,), positives=("gold", "distant"))


def largest_k(setting: Setting) -> int:
    """Return the largest cut-off k. Raises BadInput if the user sets something that the experiment itself varies."""
    if "only" in dict(setting.training):
        raise BadInput("this experiment varies the tower that is trained alone; remove this setting")
    return max(setting.ks)
