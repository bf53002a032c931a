"""Language models as judges. A judge is added by name and then asked about the pairs of a run, or about the pairs that
people have labelled.

`judges/<name>/` holds the manifest (endpoint, model, prompt, settings; never a key). Answers are in
 `judges/answers.db`, and scores in `scores/<name>/`. Whether texts may be sent to the endpoint, and with which key,
is not stored in the study: see `blindspot.backend.core.consent`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from blindspot.backend.core.consent import Consent, require_consent
from blindspot.backend.core.declared import build_settings
from blindspot.backend.core.manifest import Manifest, atomic_folder, write_manifest
from blindspot.backend.core.settings import check_name
from blindspot.backend.core.study import Study
from blindspot.backend.judges.judge import refuse_taken, stored_judges, stored_manifest
from blindspot.backend.judges.lists import Lists, score_hits
from blindspot.backend.judges.llm.endpoint import check_url
from blindspot.backend.judges.llm.prompts import Prompt, read_prompt
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judges.settings import LLMSettings
from blindspot.backend.progress import Progress
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.records import Passage, Question

KIND = "llm"


@dataclass(frozen=True, slots=True)
class PairTexts:
    """A question and a passage to be judged."""

    question: Question
    passage: Passage


@dataclass(frozen=True, slots=True)
class LLMJudge:
    """A language-model judge, as described by its manifest."""

    study: Study
    about: Mapping[str, Any]
    prompt: Prompt
    settings: LLMSettings

    @classmethod
    def load(cls, study: Study, name: str) -> LLMJudge:
        """Read a judge. Raises Missing if there is no judge of that name."""
        about = stored_manifest(study, name, KIND)
        if about is None:
            known = ", ".join(llm_judges(study)) or "none yet"
            raise Missing(f"there is no language-model judge {name!r}; judges of that kind: {known}")
        return cls(study, about, Prompt(**about["prompt"]), build_settings(LLMSettings, about["settings"]))

    @property
    def name(self) -> str:
        return str(self.about["name"])

    @property
    def calibrated(self) -> bool:
        return False

    @property
    def model(self) -> str:
        return str(self.about["model"])

    @property
    def temperature(self) -> float:
        return self.settings.temperature

    @property
    def recipe(self) -> str:
        """Return everything that stored answers depend on besides the model and the texts, as text."""
        return f"{self.prompt.digest}-{self.temperature:g}"

    def cost(self, tokens_in: float, tokens_out: float) -> float | None:
        """Return the cost of tokens; None if no prices are set."""
        prices = self.settings.price_in, self.settings.price_out
        if prices[0] is None or prices[1] is None:
            return None
        return (tokens_in * prices[0] + tokens_out * prices[1]) / 1e6

    def judge(self, lists: Lists, progress: Progress | None = None) -> np.ndarray:
        """Return (q, k) float64 scores of the hits of some lists; NaN where padded or unknown. Asks the endpoint."""
        from blindspot.backend.judges.llm.asking import ask_about_pairs

        def scores(pairs: list[tuple[Question, Passage]]) -> list[float]:
            known = ask_about_pairs(self, [PairTexts(*pair) for pair in pairs], progress=progress)
            return [known.get((question.id, passage.id), np.nan) for question, passage in pairs]

        return score_hits(self.study, lists, scores)


def llm_judges(study: Study) -> dict[str, Manifest]:
    """Return the manifests of the language-model judges of a study, by name, oldest first."""
    return stored_judges(study, KIND)


def add_llm_judge(
    study: Study,
    name: str,
    endpoint: str,
    model: str,
    prompt: str = "umbrella",
    settings: Mapping[str, Any] | None = None,
    replace: bool = False,
) -> LLMJudge:
    """Add a judge, without sending anything to its endpoint.

    Args:
        endpoint: The base of an OpenAI-compatible endpoint, as in http://localhost:8000/v1.
        model: The model that the endpoint serves.
        prompt: umbrella, rocketqa, or a file with the fields {question} and {passage}.
        settings: What differs from the defaults of `LLMSettings`.

    Raises:
        Refused: the name is taken, or an argument is none. BadInput: a wrong setting, or a file that is no prompt.
    """
    folder = study.path("judges", check_name(name, "judge"))
    chosen = build_settings(LLMSettings, dict(settings or {}))
    if (chosen.price_in is None) != (chosen.price_out is None):
        raise BadInput("give both prices, --price-in and --price-out, or none")
    url = check_url(endpoint)
    if not model.strip():
        raise Refused("name the model that the endpoint serves with --model")
    read = read_prompt(prompt, chosen.scale, chosen.positive_from)
    refuse_taken(study, name, KIND, replace)
    about = {
        "kind": KIND,
        "name": name,
        "endpoint": url,
        "model": model.strip(),
        "prompt": asdict(read),
        "settings": {key: value for key, value in asdict(chosen).items() if key != "scale"},
    }
    with study.lock_part(f"judges/{name}"), atomic_folder(folder) as building:
        write_manifest(building, about)
    if replace:
        ScoreStore.remove(study, name)
    return LLMJudge.load(study, name)


def consent_to_send(judge: LLMJudge) -> Consent:
    """Return a person's consent to send texts to the judge's endpoint. Raises NeedsConsent if there is none."""
    what = f"judge {judge.name!r} would send the texts of questions and passages"
    return require_consent(judge.study, judge.about["endpoint"], what)
