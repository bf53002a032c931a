"""The sentence templates ("forms") of the generated encyclopedia. Every form states exactly the relations under which
it is listed.

Keys in a form:
    {S} {s}   the article's subject, at the start of a sentence or inside one: its name, a short name or a pronoun
    {P} {p}   the same, possessive
    {N}       the subject's name in full
    {A}       the object of the relation ({aA}: with its article)
    {y} {y2}  years, {season} {number} {few} {thing} {quality}: harmless detail, also in `asides`
    {b} {d} {age}   years of birth and death, age at death
A form must not name an occupation, a place or a person of its own: that would state a fact the truth does not know.
"""

from __future__ import annotations

from blindspot.backend.data.formats.entityquestions import TEMPLATES as ENTITYQUESTIONS

TEMPLATES = {relation: wording for relation, wording in ENTITYQUESTIONS.items() if "_" not in relation}
"""The questions of EntityQuestions, without the second wordings of its set "similar"."""

SECOND_WORDINGS = {
    "P17": "Within the borders of what nation does a traveller find [X]?",
    "P19": "In what town did the early life of [X] begin?",
    "P20": "In what town did the long life of [X] come to an end?",
    "P26": "What is the name of the person whom [X] took as husband or wife?",
    "P36": "From what city is the nation of [X] governed?",
    "P40": "What name was given to the son or daughter of [X]?",
    "P50": "Whose name stands on the title page of [X]?",
    "P69": "At what school did [X] spend the student years?",
    "P106": "In what profession did [X] earn a living over the years?",
    "P112": "What person set up the business known as [X]?",
    "P127": "To whom does [X] belong these days?",
    "P131": "In what part of the country would a visitor find [X]?",
    "P136": "What sort of tunes would an audience hear from [X]?",
    "P159": "In what town do the directors of [X] have their main office?",
    "P170": "Whose hand and eye were at work in [X]?",
    "P175": "Whose voice can listeners hear on the record [X]?",
    "P176": "What firm's workshops make the model called [X]?",
    "P264": "On what imprint did listeners buy the records of [X]?",
    "P276": "In what place can a visitor see [X] today?",
    "P407": "In what tongue did readers first meet [X]?",
    "P413": "In what part of the team would the crowd see [X]?",
    "P495": "What nation is the home of the work called [X]?",
    "P740": "In what town did the story of the firm [X] begin?",
    "P800": "For what work do people still remember the name of [X]?",
}

# An opening sentence, by kind: the relations it states, and the form. {P19} is the object of P19; {aP106} has its
# article.
LEADS = {
    "country": (
        ((), "{N} is a country of {quality} coasts and broad inland plains."),
        ((), "{N} is a country whose present borders date from the settlement of {y}."),
        ((), "{N} is a republic that has kept its own coinage and calendar since {y}."),
        (("P36",), "{N} is a country governed from {P36}, with a parliament of {number} members."),
    ),
    "town": (
        (("P17",), "{N} is a {quality} town in {P17}, first mentioned in a charter of {y}."),
        (("P17", "P131"), "{N} is a market town in the {P131} of {P17}."),
        (("P131",), "{N} is a river town in the {P131}, known for its {season} fair."),
        ((), "{N} is a town of some {number} houses, grown up around an old ferry landing."),
        ((), "{N} is a harbour town whose wharves were laid out in {y}."),
    ),
    "landmark": (
        (("P276",), "{N} is a public building in {P276}, opened in {y}."),
        ((), "{N} is a {quality} public building, opened to visitors in {y}."),
        ((), "{N} was built between {y} and {y2} from pale limestone and brick."),
        (("P276", "P17"), "{N} stands in {P276}, {P17}, behind a row of plane trees."),
    ),
    "person": (
        (("P106",), "{N} (born in {b}) is known as {aP106}."),
        (("P106", "P19"), "{N} was {aP106}, born in {P19} in {b}."),
        (("P106",), "{N} was {aP106} of the generation that grew up after the flood of {b}."),
        (("P19",), "{N} was born in {P19} in the {season} of {b}."),
        ((), "{N}, born in {b}, was the youngest of {few} children."),
        ((), "{N} came of a family of ferry pilots and was baptised in {b}."),
    ),
    "novel": (
        (("P50",), "{N} is a novel by {P50}, first published in {y}."),
        ((), "{N} is a novel in {number} chapters, first published in {y}."),
        (("P407",), "{N} is a novel written in {P407} and first printed in {y}."),
        ((), "{N} is a long family novel that came out in the {season} of {y}."),
    ),
    "painting": (
        (("P170",), "{N} is a painting by {P170}, finished in {y}."),
        ((), "{N} is a painting in oils on canvas, finished in {y}."),
        ((), "{N} is a {quality} painting of an interior, dated {y}."),
        (("P276",), "{N} is a painting that hangs in {P276}."),
    ),
    "song": (
        (("P175",), "{N} is a song recorded by {P175} in {y}."),
        ((), "{N} is a song in a slow triple metre, recorded in {y}."),
        (("P407",), "{N} is a song in {P407}, recorded in {y}."),
        ((), "{N} is a {quality} song that was heard everywhere in the {season} of {y}."),
    ),
    "product": (
        (("P176",), "The {N} is a {thing} made by {P176} since {y}."),
        ((), "The {N} is a {thing} that was first shown at the {season} fair of {y}."),
        ((), "The {N} is a {quality} {thing}, on sale since {y}."),
    ),
    "maker": (
        ((), "{N} is a manufacturing firm of some {number} employees."),
        (("P112",), "{N} is a manufacturing firm that {P112} founded in {y}."),
        (("P159",), "{N} is a manufacturing firm with its head office in {P159}."),
        ((), "{N} has made precision parts and finished machines since {y}."),
    ),
    "label": (
        ((), "{N} is a record label with a catalogue of some {number} titles."),
        (("P112",), "{N} is a record label founded by {P112} in {y}."),
        (("P159",), "{N} is a record label based in {P159}."),
        ((), "{N} is a {quality} record label, active since {y}."),
    ),
}

# Statements of an article about its own subject.
OWN = {
    "P17": (
        "{S} lies within the borders of {A}.",
        "{S} has been on the soil of {A} since the treaty of {y}.",
        "The maps of {y} already place {s} in {A}.",
        "With the treaty of {y} {s} and the land around passed to {A}.",
        "{S} is located in {A}, a day's journey from the frontier.",
        "Letters to {s} go by way of the post office of {A}, the country in which it lies.",
    ),
    "P131": (
        "{S} lies in the {A}.",
        "{S} is one of {few} parishes that make up the {A}.",
        "The district council of the {A} has administered {s} since {y}.",
        "{S} is located in the {A}, where two valleys meet.",
        "In the land register {s} is entered under the {A}.",
        "Of all the settlements in the {A}, {s} kept its walls the longest.",
    ),
    "P276": (
        "{S} can be seen in {A}.",
        "{S} has been in {A} since {y}.",
        "Those who want to see {s} have to go to {A}.",
        "{S} is located in {A}.",
        "{A} has been the home of {s} since {y}.",
        "It was decided in {y} that {s} should stay in {A}.",
    ),
    "P36": (
        "The capital is {A}, chosen in {y}.",
        "Parliament has met in {A} since {y}.",
        "{A} became the seat of government in {y}.",
        "{S} has been ruled from {A} ever since the {season} of {y}.",
        "Its ministries all stand in {A}, the capital.",
    ),
    "P19": (
        "{S} was born in {A}.",
        "{S} was a native of {A}.",
        "{S} came into the world in {A} during the {season} floods.",
        "The parish book of {A} records {p} birth and baptism.",
        "{P} cradle stood in {A}, in a narrow house behind the mill.",
        "{A} was {p} birthplace, and {s} kept its accent.",
    ),
    "P20": (
        "{S} died in {A} in {d}.",
        "{S} spent the last {season} in {A} and died there in {d}.",
        "Death came in {A}, in {d}, after a short illness.",
        "{S} passed away in {A} in {d}.",
        "It was in {A} that {s} died, aged {age}.",
        "{P} life ended in {A} in {d}.",
    ),
    "P26": (
        "In {y} {s} married {A}.",
        "{S} was married to {A}.",
        "{P} wedding to {A} took place in {y}.",
        "From {y} {s} shared house and name with {A}, whom {s} had married that {season}.",
        "{S} met {A} at a fair, and they were husband and wife by {y}.",
    ),
    "P40": (
        "{S} had a {childword}, {A}.",
        "{P} {childword} {A} was born in {y}.",
        "{S} became the parent of {A} in {y}.",
        "A {childword}, {A}, was born to {o} in {y}.",
        "{P} only {childword} was christened {A}.",
    ),
    "P69": (
        "{S} was educated at {A}.",
        "{S} studied at {A} until {y}.",
        "{S} entered {A} on a scholarship in {y}.",
        "{S} took a degree at {A} in {y}.",
        "{A} admitted {o} as a student in {y}.",
        "{P} schooling was completed at {A}.",
    ),
    "P106": (
        "By profession {s} was {aA}.",
        "{S} worked as {aA} for most of the years that followed.",
        "{S} earned a living as {aA}.",
        "In the census of {y} {s} is entered as {aA}.",
        "{S} set up as {aA} in {y}.",
        "Until {y} {s} worked as {aA}.",
    ),
    "P413": (
        "{S} played as {aA}.",
        "On the field {s} was {aA}.",
        "{S} was used as {aA} from {y} on.",
        "{S} appeared {number} times as {aA}.",
        "Coaches put {o} out as {aA}, and there {s} stayed.",
    ),
    "P136": (
        "{S} played {A}.",
        "{P} repertoire was {A}, almost without exception.",
        "From {y} on {s} turned to {A}.",
        "{S} is associated above all with {A}.",
        "{S} had grown up with {A} and never played anything else.",
    ),
    "P264": (
        "{S} recorded for {A}.",
        "{S} signed with {A} in {y}.",
        "{P} records appeared on {A}.",
        "A contract of {y} bound {o} to {A}.",
        "From {y} {s} was represented by {A}.",
    ),
    "P800": (
        "{S} is best known for the {A}.",
        "{S} became famous for the {A}.",
        "{P} reputation rests on the {A}, completed in {y}.",
        "The {A} made {p} name in {y}.",
        "{S} is remembered for the {A} more than for anything else.",
    ),
    "P50": (
        "{S} was written by {A}.",
        "The author was {A}, who worked on it for {few} months.",
        "{A} wrote {s} in the {season} of {y}.",
        "The manuscript is in the hand of {A}, the author.",
        "{S} came from the pen of {A}.",
    ),
    "P407": (
        "{S} was written in {A}.",
        "The original is in {A}.",
        "The words are {A} throughout.",
        "The first text was set down in {A}, and translations followed in {y}.",
        "{S} uses an old-fashioned kind of {A}.",
    ),
    "P495": (
        "{S} was created in {A}.",
        "{S} originates from {A}.",
        "{S} was made in {A} and first seen abroad in {y}.",
        "{A} is the country of origin.",
        "Before it went abroad {s} was a product of {A}.",
    ),
    "P170": (
        "{S} was created by {A}.",
        "The artist was {A}.",
        "{A} painted {s} in the {season} of {y}.",
        "{S} carries the signature of {A}.",
        "{S} is a work from the hand of {A}.",
    ),
    "P175": (
        "{S} was performed by {A}.",
        "The performer on the record is {A}.",
        "{A} sang {s} for the first time in {y}.",
        "{S} belongs to the repertoire of {A}, who recorded it in {y}.",
        "The voice heard on the recording is that of {A}.",
    ),
    "P176": (
        "{S} is produced by {A}.",
        "The manufacturer is {A}.",
        "{A} has built {s} since {y}.",
        "{S} leaves the workshops of {A} at a rate of {number} a week.",
        "{S} is made by {A}.",
    ),
    "P112": (
        "{S} was founded by {A}.",
        "The founder was {A}.",
        "{A} started {s} in {y} with borrowed money.",
        "{S} was the creation of {A}, who set it up in {y}.",
        "{S} was established by {A}.",
    ),
    "P127": (
        "{S} is owned by {A}.",
        "{S} has been the property of {A} since {y}.",
        "{A} bought {s} in {y}.",
        "{S} passed into the hands of {A} in {y} and has stayed there.",
        "The present owner is {A}.",
    ),
    "P159": (
        "{S} has its headquarters in {A}.",
        "The head office is in {A}.",
        "Since {y} {s} has been run from {A}.",
        "{S} moved its main office to {A} in {y}.",
        "The directors of {s} sit in {A}.",
    ),
    "P740": (
        "{S} was founded in {A}.",
        "{S} began in a rented room in {A}.",
        "The first office of {s} opened in {A} in {y}.",
        "{S} was started in {A} in {y}.",
        "{A} is where {s} came into being, in {y}.",
    ),
    # Statements of an article that answer a question about another article's subject: {A} is that subject.
    "capital": (
        "{S} is the capital of {A}.",
        "{S} has been the seat of government of {A} since {y}.",
        "The parliament of {A} sits in {s}, the capital.",
    ),
    "wrote": (
        "{S} wrote the novel {A}.",
        "{S} published the novel {A} in {y}.",
        "{S} was the author of {A}, a book begun in {y}.",
    ),
    "painted": ("{S} painted {A}.", "{S} finished the painting {A} in {y}.", "{S} was the artist of {A}."),
    "sang": ("{S} performed the song {A}.", "{S} recorded the song {A} in {y}.", "{S} was the first to sing {A}."),
    "makes": ("{S} produces the {A}.", "{S} has manufactured the {A} since {y}.", "{S} is the maker of the {A}."),
    "started": ("{S} founded {A}.", "{S} established {A} in {y}.", "{S} was the founder of {A}."),
}

# The same facts as a relative clause about the subject named just before.
CLAUSES = {
    "P17": (
        "which lies in {A}",
        "which is located in {A}",
        "which has been part of {A} since {y}",
        "which the maps place in {A}",
        "which stands on the soil of {A}",
    ),
    "P131": (
        "which lies in the {A}",
        "which is located in the {A}",
        "which belongs to the {A}",
        "which is reached by a side road through the {A} where it lies",
    ),
    "P276": (
        "which can be seen in {A}",
        "which is located in {A}",
        "which has its place in {A}",
        "which visitors find in {A}",
    ),
    "P36": (
        "whose capital is {A}",
        "whose parliament sits in {A}, the capital",
        "which is governed from {A}",
        "which made {A} its capital in {y}",
    ),
    "P19": (
        "who was born in {A}",
        "who was a native of {A}",
        "who had come into the world in {A}",
        "whose birthplace was {A}",
        "who first saw the light in {A}",
    ),
    "P20": (
        "who died in {A}",
        "who was to die in {A}",
        "whose death in {A} was reported in {y}",
        "who spent the last days in {A} and passed away there",
    ),
    "P26": (
        "who was married to {A}",
        "who had married {A}",
        "whose marriage to {A} was a long one",
        "who was the spouse of {A}",
    ),
    "P40": (
        "whose {childword} was {A}",
        "who was the parent of {A}",
        "who had a {childword} called {A}",
        "who brought up a {childword}, {A}",
    ),
    "P69": (
        "who had been educated at {A}",
        "who had studied at {A}",
        "who was a graduate of {A}",
        "whose student years were spent at {A}",
    ),
    "P106": ("who worked as {aA}", "who was {aA}", "who earned a living as {aA}", "who was {aA} by profession"),
    "P413": (
        "who played as {aA}",
        "who was put out as {aA}",
        "whose place in the team was that of {aA}",
        "who appeared as {aA}",
    ),
    "P136": (
        "who played {A}",
        "who was known for playing {A}",
        "whose music was {A}",
        "who never played anything but {A}",
    ),
    "P264": (
        "who recorded for {A}",
        "who was under contract to {A}",
        "whose records came out on {A}",
        "who was represented by {A}",
    ),
    "P800": (
        "who is known for the {A}",
        "who had become famous for the {A}",
        "whose fame rests on the {A}",
        "who is remembered for the {A}",
    ),
    "P50": ("which {A} wrote", "whose author is {A}", "which came from the pen of {A}", "a book by {A}"),
    "P407": (
        "which was written in {A}",
        "whose words are in {A}",
        "which was set down in {A}",
        "the original of which is in {A}",
    ),
    "P495": (
        "which was created in {A}",
        "which originates from {A}",
        "which was made in {A}",
        "which comes from {A}",
    ),
    "P170": (
        "which {A} created",
        "the artist of which was {A}",
        "which bears the signature of {A}",
        "which is by the hand of {A}",
    ),
    "P175": ("which {A} performed", "which was sung by {A}", "which {A} had recorded", "sung by {A}"),
    "P176": ("which {A} produces", "which comes from the factory of {A}", "a product of {A}", "which is made by {A}"),
    "P112": ("which {A} founded", "which had been started by {A}", "whose founder was {A}", "which {A} had set up"),
    "P127": (
        "which {A} owns",
        "which is the property of {A}",
        "which belongs to {A}",
        "which is in the hands of {A}",
    ),
    "P159": (
        "which has its headquarters in {A}",
        "whose head office is in {A}",
        "which is run from {A}",
        "whose directors sit in {A}",
    ),
    "P740": (
        "which was founded in {A}",
        "which was started in {A}",
        "which began in {A}",
        "which had its first office in {A}",
    ),
}
