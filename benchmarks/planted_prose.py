"""A second generator of planted misses: other sentence forms, real words and names, and filler in which sentences have
subordinate clauses.

It shares no sentence, name or list with `benchmarks.planted_misses`, only the record of a planted miss. A sentence that
states the fact in other words names the subject, and an answer is the whole name of a town, college or company: a fact of "he",
or an answer without the word "College", would be a second cause beside the planted one.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from benchmarks.planted_misses import PlantedMiss
from blindspot.db.records import Passage, Question

CAUSES = (
    "near_namesake",
    "other_words",
    "late_fact",
    "other_entity_passage",
    "unnamed_subject",
    "crowded_passage",
    "question_wording",
    "false_negative_above",
    "rare_subject",
    "cut_fact",
    "doubtful_gold",
)
SIBLINGS = 6  # passages of the subject's article that do not answer
GIVEN = "Harriet Clement Rosalind Edmund Beatrice Lionel Winifred Horace Florence Rupert Matilda Cedric".split()
MIDDLE = "Alice James Grace Henry Louise Arthur Jane Philip May Robert".split()
FAMILY = (
    "Ashworth Pemberton Hargreaves Whitlock Thornbury Fairfax Loxley Buckland Cavendish Wexford Ramsbottom Stanhope "
    "Cartwright Holloway Birchall Lathbury Marchmont Oakeshott Penhallow Quennell Rushworth Selwyn Tregarth Underhill"
).split()
TOWNS = (
    "Ludlow Whitby Totnes Hexham Buxton Kendal Saltash Wantage Morpeth Bideford Oundle Tenbury Alnwick Frome".split()
)
OFTEN = 40  # mentions of the subjects of training questions
RARE = "ngwe qul ttho mbai xhe tlaz yrru kpel dzhu oyt vlai whe".split()
FIRMS = "Brass Glass Rope Linen Candle Timber Paper Clock Saddle Copper".split()

# For each relation: question, roundabout question, forms that use the question's words, other words, sentences with the
# answer that do not state the fact, and sentences of the same subject area that do not answer. {X} is the subject, {P} a pronoun, {A} the answer.
RELATIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "birth": {
        "question": ("In which town was {X} born?",),
        "roundabout": ("I keep wondering what spot on the map first heard the crying of {X}, can you say?",),
        "plain": (
            "{X} was born in the town of {A}, the youngest of four children.",
            "Born in the town of {A}, {X} spoke of it with affection.",
        ),
        "other": (
            "The first cradle of {X} stood above a bakery at {A}.",
            "A midwife of {A} brought {X} into the world on a stormy night.",
        ),
        "chance": (
            "{X} once sent a crate of quinces to a fair at {A}.",
            "A view of {A} by moonlight was given to {X} by an aunt.",
        ),
        "near": (
            "{X} wrote about towns and the people born there.",
            "A town later put up a bench for {X}, who was not born nearby.",
        ),
    },
    "school": {
        "question": ("At which college did {X} study?",),
        "roundabout": ("Somebody told me once, though I forget, whose lecture rooms {X} used to sit in?",),
        "plain": (
            "{X} studied at {A} for three years before leaving.",
            "At {A}, {X} began to study botany.",
        ),
        "other": (
            "A degree from {A} hung over the mantelpiece of {X} for the rest of a long life.",
            "The porters of {A} remembered {X} as a tall undergraduate who paid debts in apples.",
        ),
        "chance": (
            "The boat race that {X} lost a hat at was rowed past {A}.",
            "{X} sold the mulberry tree to {A} for a guinea.",
        ),
        "near": (
            "{X} gave a prize to a college without having studied there.",
            "Many who study the period quote letters of {X} about college life.",
        ),
    },
    "firm": {
        "question": ("What company did {X} found?",),
        "roundabout": ("Out of curiosity, which business owes its very existence to the stubbornness of {X}?",),
        "plain": (
            "{X} founded the {A} with borrowed money.",
            "The {A} was founded by {X} after the war.",
        ),
        "other": (
            "With forty pounds from an aunt {X} set up the {A} in a shed.",
            "It was a rainy spring when {X} first hung out the sign of the {A}, begun on a whim.",
        ),
        "chance": (
            "A parcel that the {A} mislaid belonged to {X}.",
            "{X} sued the {A} over a broken window.",
        ),
        "near": (
            "{X} advised a company that others had founded.",
            "A founder of some company or other wrote to {X} every month.",
        ),
    },
}
FILLER = (
    "Although the winters were hard, {P} walked to the river every morning before breakfast.",
    "Letters from those years, which a nephew kept in a hatbox, mention little but the weather.",
    "When the railway came, prices fell, and the market moved to a field behind the church.",
    "{P} disliked music, except when it was played badly by friends.",
    "A portrait, painted while the sitter had a cold, hangs in a corridor that few visitors enter.",
    "Because the roof leaked, the library was sold to a dealer who never paid.",
    "Neighbours recalled a dog that barked at bishops and at nobody else.",
    "Two attempts to cross the moor by bicycle ended in the same ditch.",
    "The garden, laid out after a Dutch model, won a medal that was later stolen.",
    "Critics were divided, though most admitted that the soup had been excellent.",
    "In old age {P} kept seven clocks, none of which agreed with another.",
    "A street sweeper found the lost notebook and returned it without reading a page.",
)
ASIDES = (
    "{Y} kept the lighthouse for twenty years and collected shells.",
    "The quarry above the lake closed when its last horse died.",
    "{Y} translated four novels and lost three of them on a ferry.",
    "A flood carried the mill away in a single night.",
    "{Y} bred pigeons that won every race of the county.",
    "The bridge was rebuilt in iron and painted green.",
)


class PlantedProse:
    """Passages and misses, as `PlantedStudy` has them. `training` are questions in the usual wordings.

    Args:
        counts: the number of misses of each cause of CAUSES.
    """

    def __init__(self, counts: Mapping[str, int], seed: int = 0):
        self._random = Random(f"prose {seed}")
        self._names: set[str] = set()
        self.passages: list[Passage] = []
        self.misses: list[PlantedMiss] = []
        self.training = [self._asked(f"training.{relation}.{n}", relation) for relation in RELATIONS for n in range(20)]
        for cause in CAUSES:
            for _ in range(counts.get(cause, 0)):
                self._plant(cause)

    def _plant(self, cause: str) -> None:
        pick, relation = self._random.choice, self._random.choice(list(RELATIONS))
        forms, subject = RELATIONS[relation], self._name()
        answer = self._answer(relation)
        fill = [_capital(each.format(P="he")) for each in self._random.sample(FILLER, 9)]
        plain = pick(forms["plain"]).format(X=subject, A=answer)
        asked = pick(forms["question"]).format(X=subject)
        for place in range(SIBLINGS):
            near = forms["near"][place % 2].format(X=subject)
            self._add(subject, f"{near} {self._random.choice(fill)} {fill[place]}")
        question, title, text = asked, subject, f"{plain} {' '.join(fill[:4])}"
        clean, clean_title, rivals = text, subject, ()
        if cause == "other_words":
            text = f"{pick(forms['other']).format(X=subject, A=answer)} {' '.join(fill[:4])}"
        elif cause == "late_fact":
            clean, text = f"{plain} {' '.join(fill)}", f"{' '.join(fill)} {plain}"
        elif cause == "other_entity_passage":
            title = self._name()
            text = f"{title} is remembered for other things. {' '.join(fill[:2])} {plain} {fill[2]}"
        elif cause == "unnamed_subject":
            title = clean_title = "Notes of a local society"
            rest = plain.replace(f"by {subject}", "by him").replace(subject, "he")
            text = f"A paper was read about {subject}. {_capital(rest)} {fill[0]}"
            clean = f"A paper was read about {subject}. {plain} {fill[0]}"
        elif cause == "crowded_passage":
            around = [each.format(Y=self._name()) for each in ASIDES]
            text, clean = " ".join([*around[:3], plain, *around[3:]]), plain
        elif cause == "question_wording":
            question = pick(forms["roundabout"]).format(X=subject)
        elif cause == "near_namesake":
            rivals = tuple(self._rival(subject, relation, middle) for middle in self._random.sample(MIDDLE, 6))
        elif cause == "false_negative_above":
            self._add(subject, clean)
            title = self._name()
            text = f"{title} once met {subject}. {' '.join(fill[4:8])} The talk was of {answer}."
        elif cause == "rare_subject":
            syllables = self._random.sample(RARE, 6)
            clean_subject, subject = subject, _rare_name(syllables)
            title, text, question = (each.replace(clean_subject, subject) for each in (title, text, question))
            rivals = tuple(
                self._add(name, text.replace(subject, name).replace(answer, self._answer(relation)))
                for name in (_rare_name(self._random.sample(syllables, 6)) for _ in range(6))
                if name != subject
            )
        elif cause == "doubtful_gold":
            chance = pick(forms["chance"]).format(X=subject, A=answer)
            text, clean = (f"{' '.join(fill[:2])} {each} {' '.join(fill[2:4])}" for each in (chance, plain))
        elif cause == "cut_fact":
            words = plain.split()
            place = next(i for i, word in enumerate(words) if word.startswith(answer.split()[0]))
            if place > 2:
                self._add(subject, f"{' '.join(fill[4:7])} {' '.join(words[:place])}")
                text = f"{' '.join(words[place:])} {' '.join(fill[:4])}"
            else:
                text = f"{' '.join(fill[:4])} {' '.join(words[: place + 3])}"
        gold = self._add(title, text)
        if cause == "cut_fact" and place <= 2:
            self._add(subject, f"{' '.join(words[place + 3 :])} {' '.join(fill[4:7])}")
        made = Question(
            f"{cause}.{len(self.misses)}",
            question,
            (answer,),
            relation,
            subject,
            frequency=1 if cause == "rare_subject" else SIBLINGS,
            dataset="planted",
            split="dev",
            gold=(gold,),
        )
        of_clean = Passage(f"{gold}-clean", clean_title, clean)
        self.misses.append(PlantedMiss(cause, made, self.passages[-1], asked, of_clean, rivals))

    def _rival(self, subject: str, relation: str, middle: str) -> str:
        given, *_, family = subject.split()
        name = f"{given} {middle} {family}"
        return self._add(
            name, self._random.choice(RELATIONS[relation]["plain"]).format(X=name, A=self._answer(relation))
        )

    def _add(self, title: str, text: str) -> str:
        self.passages.append(Passage(f"prose-{len(self.passages) + 1}", title, text))
        return self.passages[-1].id

    def _asked(self, id: str, relation: str) -> Question:
        name = self._name()
        text = RELATIONS[relation]["question"][0].format(X=name)
        return Question(
            id, text, (self._answer(relation),), relation, name, frequency=OFTEN, dataset="planted", split="train"
        )

    def _name(self) -> str:
        while True:
            families = self._random.sample(FAMILY, 2)
            name = f"{self._random.choice(GIVEN)} {families[0]}-{families[1]}"
            if name not in self._names:
                self._names.add(name)
                return name

    def _answer(self, relation: str) -> str:
        town, other = self._random.sample(TOWNS, 2)
        if relation == "firm":
            return f"{town} {self._random.choice(FIRMS)} Company"
        return f"{town}-{other} College" if relation == "school" else f"{town}-{other}"


def _rare_name(syllables: list[str]) -> str:
    return " ".join("".join(part).capitalize() for part in (syllables[:3], syllables[3:]))


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
