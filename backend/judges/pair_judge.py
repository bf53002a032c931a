"""Judges that need only a question and a passage. This is the simplest kind of judge that a package can add.

    class ShortIsRight(PairJudge):
        name, title, help = "short", "short passages", "calls short passages right"

        def probabilities(self, questions, passages):
            return [1 / (1 + len(passage.text)) for passage in passages]

If an entry point of the group `blindspot.judges` names an instance, this instance is available as a judge in every
study, under the name of its kind. `blindspot judge run short --run RUN` stores its scores.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from blindspot.backend.core.jobs import job
from blindspot.backend.core.study import Study
from blindspot.backend.judges.judge import JUDGES, JudgeCard, JudgeKind
from blindspot.backend.judges.lists import Lists, judge_lists, score_hits
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.progress import Progress
from blindspot.db.errors import BadInput, Missing
from blindspot.db.records import Passage, Question

DEPTH = 100  # ranks of a run that are judged


@job("judge pairs")
def judge_pairs(
    study: Study, name: str, run: str, depth: int = DEPTH, progress: Progress | None = None
) -> dict[str, Any]:
    """Judge the top ranks of every list of a run with a `PairJudge`, and store the scores in `scores/<name>/`.

    Stored probabilities are not replaced.

    Raises:
        Missing: no such judge or run. BadInput: the judge gives something else than a probability for each pair.
    """
    kind = JUDGES.find(name)
    if not isinstance(kind, PairJudge):
        raise Missing(f"there is no installed judge {name!r}")
    opened, judge = study.run(run), kind.open(study, name)
    store = ScoreStore.create(study, name, kind.calibrated, description={"judge": kind.name})
    return judge_lists(study, store, opened, depth, judge.judge, progress=progress)


class PairJudge(JudgeKind):
    """A judge whose probability depends only on the question and the passage.

    calibrated: whether the probabilities are calibrated on labels.
    """

    calibrated: ClassVar[bool] = False
    run_job = staticmethod(judge_pairs)

    @abstractmethod
    def probabilities(self, questions: Sequence[str], passages: Sequence[Passage]) -> Sequence[float]:
        """Return for each passage the probability, from 0 to 1, that it answers the question at the same index."""

    def cards(self, study: Study) -> list[JudgeCard]:
        return [JudgeCard(self.name, self.name, "", self.calibrated, None, self.name in study.parts("scores"))]

    def open(self, study: Study, name: str, device: str | None = None) -> OpenPairJudge:
        return OpenPairJudge(study, self)


class OpenPairJudge:
    """Adapts a `PairJudge` to the protocol of `Judge`, with the passages of a study."""

    def __init__(self, study: Study, kind: PairJudge):
        self.study, self.kind, self.name, self.calibrated = study, kind, kind.name, kind.calibrated

    def judge(self, lists: Lists, progress: Progress | None = None) -> np.ndarray:
        """Return (q, k) float64 probabilities; NaN where padded.

        Raises BadInput if the judge does not give one probability for each pair.
        """
        return score_hits(self.study, lists, self._checked_probabilities)

    def _checked_probabilities(self, pairs: list[tuple[Question, Passage]]) -> np.ndarray:
        texts, passages = [question.text for question, _ in pairs], [passage for _, passage in pairs]
        given = np.asarray(self.kind.probabilities(texts, passages), np.float64)
        if given.shape != (len(pairs),) or not np.all((given >= 0) & (given <= 1)):
            raise BadInput(
                f"the judge {self.name!r} must give a number from 0 to 1 for each of {len(pairs)} pairs; "
                f"it gave {np.array2string(given, threshold=5, precision=3)}"
            )
        return given
