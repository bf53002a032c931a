"""The sentences of the generated encyclopedia: every form states exactly the relations it is listed under, no more.

Keys in a form:
    {S} {s}   the article's subject, at the start of a sentence or inside one: its name, a short name or a pronoun
    {P} {p}   the same, possessive
    {N}       a name in full
    {A}       the object of the relation
    {y} {y2}  years, {season} {number} {few} {thing} {quality}: harmless detail
    {c}       a relative clause that tells a fact of {N} (see CLAUSES)
A form must not name an occupation, a place or a person of its own: that would state a fact the truth does not know.
"""

from __future__ import annotations

TEMPLATES = {
    "P17": "Which country is [X] located in?",
    "P19": "Where was [X] born?",
    "P20": "Where did [X] die?",
    "P26": "Who is [X] married to?",
    "P36": "What is the capital of [X]?",
    "P40": "Who is [X]'s child?",
    "P50": "Who is the author of [X]?",
    "P69": "Where was [X] educated?",
    "P106": "What kind of work does [X] do?",
    "P112": "Who founded [X]?",
    "P127": "Who owns [X]?",
    "P131": "Where is [X] located?",
    "P136": "What type of music does [X] play?",
    "P159": "Where is the headquarter of [X]?",
    "P170": "Who was [X] created by?",
    "P175": "Who performed [X]?",
    "P176": "Which company is [X] produced by?",
    "P264": "What music label is [X] represented by?",
    "P276": "Where is [X] located?",
    "P407": "Which language was [X] written in?",
    "P413": "What position does [X] play?",
    "P495": "Which country was [X] created in?",
    "P740": "Where was [X] founded?",
    "P800": "What is [X] famous for?",
}

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

# An opening sentence, by kind: the relations it states, and the form. {P19} is the object of P19; {aP106} has its article.
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
        (("P176",), "{N} is a {thing} made by {P176} since {y}."),
        ((), "{N} is a {thing} that was first shown at the {season} fair of {y}."),
        ((), "{N} is a {quality} {thing}, on sale since {y}."),
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

# What an article says of its own subject.
OWN = {
    "P17": (
        "{S} lies within the borders of {A}.", "{S} has belonged to {A} since the treaty of {y}.",
        "The maps of {y} already place {s} in {A}.", "Administratively {s} is part of {A}, as it was before {y}.",
        "{S} is located in {A}, a day's journey from the frontier.", "The laws of {A} have applied in {s} since {y}.",
    ),
    "P131": (
        "{S} lies in the {A}.", "{S} is one of {few} parishes that make up the {A}.", "The district council of the {A} has administered {s} since {y}.",
        "{S} is located in the {A}, where two valleys meet.", "In the land register {s} is entered under the {A}.",
        "Of all the settlements in the {A}, {s} kept its walls the longest.",
    ),
    "P276": (
        "{S} can be seen in {A}.", "{S} has stood in {A} since {y}.", "Visitors to {A} find {s} open on most days.",
        "{S} is located in {A}, close to the old bridge.", "{A} has been the home of {s} since {y}.", "It was decided in {y} that {s} should stay in {A}.",
    ),
    "P36": (
        "The capital is {A}, chosen in {y}.", "Parliament has met in {A} since {y}.", "{A} became the seat of government in {y}.",
        "{S} has been ruled from {A} ever since the {season} of {y}.", "Its ministries all stand in {A}, the capital.",
    ),
    "P19": (
        "{S} was born in {A}.", "{S} was a native of {A}.", "{S} came into the world in {A} during a {season} flood.",
        "The parish book of {A} records {p} birth and baptism.", "{P} cradle stood in {A}, in a narrow house behind the mill.",
        "{A} was {p} birthplace, and {s} kept its accent.",
    ),
    "P20": (
        "{S} died in {A} in {d}.", "{S} spent the last {season} in {A} and died there in {d}.", "Death came in {A}, in {d}, after a short illness.",
        "{S} passed away in {A} in {d}.", "It was in {A} that {s} died, aged {age}.", "{P} life ended in {A} in {d}.",
    ),
    "P26": (
        "In {y} {s} married {A}.", "{S} was married to {A}.", "{P} wedding to {A} took place in {y}.",
        "From {y} {s} shared house and name with {A}, whom {s} had married that {season}.", "{S} met {A} at a fair, and they were husband and wife by {y}.",
    ),
    "P40": (
        "{S} had a {childword}, {A}.", "{P} {childword} {A} was born in {y}.", "{S} became the parent of {A} in {y}.",
        "A {childword}, {A}, was born to {o} in {y}.", "{P} only {childword} was christened {A}.",
    ),
    "P69": (
        "{S} was educated at {A}.", "{S} studied at {A} until {y}.", "{S} entered {A} on a scholarship in {y}.",
        "{S} took a degree at {A} in {y}.", "{A} admitted {o} as a student in {y}.", "{P} schooling was completed at {A}.",
    ),
    "P106": (
        "By profession {s} was {aA}.", "{S} worked as {aA} for most of the years that followed.", "{S} earned a living as {aA}.",
        "In the census of {y} {s} is entered as {aA}.", "{S} set up as {aA} in {y}.", "Until {y} {s} worked as {aA}.",
    ),
    "P413": (
        "{S} played as {aA}.", "On the field {s} was {aA}.", "{S} was used as {aA} from {y} on.",
        "{S} appeared {number} times as {aA}.", "Coaches put {o} out as {aA}, and there {s} stayed.",
    ),
    "P136": (
        "{S} played {A}.", "{P} repertoire was {A}, almost without exception.", "From {y} on {s} turned to {A}.",
        "{S} is associated above all with {A}.", "{S} had grown up with {A} and never played anything else.",
    ),
    "P264": (
        "{S} recorded for {A}.", "{S} signed with {A} in {y}.", "{P} records appeared on {A}.",
        "A contract of {y} bound {o} to {A}.", "From {y} {s} was represented by {A}.",
    ),
    "P800": (
        "{S} is best known for the {A}.", "{S} became famous for the {A}.", "{P} reputation rests on the {A}, completed in {y}.",
        "The {A} made {p} name in {y}.", "{S} is remembered for the {A} more than for anything else.",
    ),
    "P50": (
        "{S} was written by {A}.", "The author was {A}, who worked on it for {few} months.", "{A} wrote {s} in the {season} of {y}.",
        "The manuscript is in the hand of {A}, the author.", "{S} came from the pen of {A}.",
    ),
    "P407": (
        "{S} was written in {A}.", "The original is in {A}.", "The words are {A} throughout.",
        "The first text was set down in {A}, and translations followed in {y}.", "{S} uses an old-fashioned kind of {A}.",
    ),
    "P495": (
        "{S} was created in {A}.", "{S} originates from {A}.", "{S} was made in {A} and first seen abroad in {y}.",
        "{A} is the country of origin.", "Before it went abroad {s} was a product of {A}.",
    ),
    "P170": (
        "{S} was created by {A}.", "The artist was {A}.", "{A} painted {s} in the {season} of {y}.",
        "{S} carries the signature of {A}.", "{S} is a work from the hand of {A}.",
    ),
    "P175": (
        "{S} was performed by {A}.", "The performer on the record is {A}.", "{A} sang {s} for the first time in {y}.",
        "{S} belongs to the repertoire of {A}, who recorded it in {y}.", "The voice heard on the recording is that of {A}.",
    ),
    "P176": (
        "{S} is produced by {A}.", "The manufacturer is {A}.", "{A} has built {s} since {y}.",
        "{S} leaves the workshops of {A} at a rate of {number} a week.", "{S} is made by {A}.",
    ),
    "P112": (
        "{S} was founded by {A}.", "The founder was {A}.", "{A} started {s} in {y} with borrowed money.",
        "{S} was the creation of {A}, who set it up in {y}.", "{S} was established by {A}.",
    ),
    "P127": (
        "{S} is owned by {A}.", "{S} has been the property of {A} since {y}.", "{A} bought {s} in {y}.",
        "{S} passed into the hands of {A} in {y} and has stayed there.", "The present owner is {A}.",
    ),
    "P159": (
        "{S} has its headquarters in {A}.", "The head office is in {A}.", "Since {y} {s} has been run from {A}.",
        "{S} moved its main office to {A} in {y}.", "The directors of {s} sit in {A}.",
    ),
    "P740": (
        "{S} was founded in {A}.", "{S} began in a rented room in {A}.", "The first office of {s} opened in {A} in {y}.",
        "{S} was started in {A} in {y}.", "{A} is where {s} came into being, in {y}.",
    ),
    # What an article says that answers a question about another article's subject: {A} is that subject.
    "capital": ("{S} is the capital of {A}.", "{S} has been the seat of government of {A} since {y}.", "The parliament of {A} sits in {s}, the capital."),
    "wrote": ("{S} wrote the novel {A}.", "{S} published the novel {A} in {y}.", "{S} was the author of {A}, a book begun in {y}."),
    "painted": ("{S} painted {A}.", "{S} finished the painting {A} in {y}.", "{S} was the artist of {A}."),
    "sang": ("{S} performed the song {A}.", "{S} recorded the song {A} in {y}.", "{S} was the first to sing {A}."),
    "makes": ("{S} produces the {A}.", "{S} has manufactured the {A} since {y}.", "{S} is the maker of the {A}."),
    "started": ("{S} founded {A}.", "{S} established {A} in {y}.", "{S} was the founder of {A}."),
}

# The same facts in other words, as a relative clause about a subject that is named just before.
CLAUSES = {
    "P17": ("which lies in {A}", "which is located in {A}", "which has been part of {A} since {y}", "which the maps place in {A}", "which flies the flag of {A}"),
    "P131": ("which lies in the {A}", "which is located in the {A}", "which belongs to the {A}", "which is reached by a side road through the {A} where it lies"),
    "P276": ("which can be seen in {A}", "which is located in {A}", "which has its place in {A}", "which visitors find in {A}"),
    "P36": ("whose capital is {A}", "whose parliament sits in {A}, the capital", "which is governed from {A}", "which made {A} its capital in {y}"),
    "P19": ("who was born in {A}", "who was a native of {A}", "who had come into the world in {A}", "whose birthplace was {A}", "who first saw the light in {A}"),
    "P20": ("who died in {A}", "who was to die in {A}", "whose death in {A} was reported in {y}", "who spent the last days in {A} and passed away there"),
    "P26": ("who was married to {A}", "who had married {A}", "whose wife or husband was {A}", "who was the spouse of {A}"),
    "P40": ("whose {childword} was {A}", "who was the parent of {A}", "who had a {childword} called {A}", "whose {childword} {A} came along"),
    "P69": ("who had been educated at {A}", "who had studied at {A}", "who was a graduate of {A}", "whose student years were spent at {A}"),
    "P106": ("who worked as {aA}", "who was {aA}", "who earned a living as {aA}", "who was {aA} by profession"),
    "P413": ("who played as {aA}", "who was put out as {aA}", "whose place in the team was that of {aA}", "who appeared as {aA}"),
    "P136": ("who played {A}", "who was known for playing {A}", "whose music was {A}", "who never played anything but {A}"),
    "P264": ("who recorded for {A}", "who was under contract to {A}", "whose records came out on {A}", "who was represented by {A}"),
    "P800": ("who is known for the {A}", "who had become famous for the {A}", "whose fame rests on the {A}", "who is remembered for the {A}"),
    "P50": ("which {A} wrote", "whose author is {A}", "which came from the pen of {A}", "a book by {A}"),
    "P407": ("which was written in {A}", "whose words are in {A}", "which was set down in {A}", "the original of which is in {A}"),
    "P495": ("which was created in {A}", "which originates from {A}", "which was made in {A}", "which comes from {A}"),
    "P170": ("which {A} created", "the artist of which was {A}", "which bears the signature of {A}", "which is by the hand of {A}"),
    "P175": ("which {A} performed", "which was sung by {A}", "which {A} had recorded", "sung by {A}"),
    "P176": ("which {A} produces", "which comes from the factory of {A}", "a product of {A}", "which is made by {A}"),
    "P112": ("which {A} founded", "which had been started by {A}", "whose founder was {A}", "which {A} had set up"),
    "P127": ("which {A} owns", "which is the property of {A}", "which belongs to {A}", "which is in the hands of {A}"),
    "P159": ("which has its headquarters in {A}", "whose head office is in {A}", "which is run from {A}", "whose directors sit in {A}"),
    "P740": ("which was founded in {A}", "which was started in {A}", "which began in {A}", "which had its first office in {A}"),
}

# How one article comes to speak of another's subject: by the host's group, then by the subject's.
FRAMES = {
    "person": {
        "person": (
            "{S} exchanged letters for many years with {N}, {c}.", "{P} notebooks of {y} often mention {N}, {c}.",
            "In these years {p} closest ally was {N}, {c}.", "{S} dedicated a late essay to {N}, {c}.",
            "{S} once shared a railway compartment with {N}, {c}.", "A quarrel with {N}, {c}, was patched up in {y}.",
        ),
        "place": (
            "In {y} {s} made a long visit to {N}, {c}.", "{P} travel diary describes {N}, {c}.",
            "{S} often spoke of {N}, {c}.", "For two summers {s} rented rooms near {N}, {c}.",
        ),
        "work": (
            "{S} counted among the admirers of {N}, {c}.", "{S} owned an early copy of {N}, {c}.",
            "{P} letters praise {N}, {c}.", "{S} gave a public talk on {N}, {c}.",
        ),
        "product": (
            "{S} bought a {N}, {c}, and kept it in good order.", "A photograph of {y} shows {o} beside a {N}, {c}.",
            "{S} never parted with an old {N}, {c}.", "The estate included a {N}, {c}.",
        ),
        "company": (
            "{S} held a few shares in {N}, {c}.", "{S} gave advice for a time to {N}, {c}.",
            "A small pension came from {N}, {c}.", "{P} papers include bills from {N}, {c}.",
        ),
    },
    "place": {
        "person": (
            "A street near the station is named after {N}, {c}.", "Among its honorary citizens is {N}, {c}.",
            "A plaque of {y} recalls a visit by {N}, {c}.", "The local archive keeps letters from {N}, {c}.",
            "A {season} lecture is held in memory of {N}, {c}.", "Older residents remember {N}, {c}.",
        ),
        "place": (
            "A twinning treaty of {y} links {s} with {N}, {c}.", "The old post road ran on towards {N}, {c}.",
            "Its {season} market drew traders from {N}, {c}.", "Stone for the new quay was shipped from {N}, {c}.",
        ),
        "work": (
            "A local society organised an evening on {N}, {c}.", "The reading room owns an early copy of {N}, {c}.",
            "Schools here use {N}, {c}, in their lessons.", "An exhibition of {y} was devoted to {N}, {c}.",
        ),
        "product": (
            "In the yard stands a {N}, {c}.", "A prize draw of {y} offered a {N}, {c}.",
            "The council ordered a {N}, {c}.", "A collector here shows visitors a {N}, {c}.",
        ),
        "company": (
            "The tram line was ordered from {N}, {c}.", "Many families here lived on wages from {N}, {c}.",
            "In {y} the council signed a contract with {N}, {c}.", "A depot near the river was leased to {N}, {c}.",
        ),
    },
    "work": {
        "person": (
            "An early admirer was {N}, {c}.", "A dedication was added for {N}, {c}.", "A copy once belonged to {N}, {c}.",
            "A review of {y} compares {s} with the taste of {N}, {c}.", "Some see in it a portrait of {N}, {c}.",
            "It was praised in public by {N}, {c}.",
        ),
        "place": (
            "Some details are thought to recall {N}, {c}.", "It was shown in {y} to visitors from {N}, {c}.",
            "A first version was lost on the road to {N}, {c}.", "Scenes of {N}, {c}, stand behind it.",
        ),
        "work": (
            "Critics have set it beside {N}, {c}.", "It owes a debt to {N}, {c}.", "In a survey of {y} it came second to {N}, {c}.",
            "It is often confused with {N}, {c}.",
        ),
        "product": (
            "A poster of {y} sets it beside a {N}, {c}.", "The first buyer paid for it with a {N}, {c}.",
            "It was given away in {y} with each {N}, {c}.", "It shares its name day with the {N}, {c}.",
        ),
        "company": (
            "Permission to copy it was given to {N}, {c}.", "A calendar with it was printed for {N}, {c}.",
            "It was advertised in {y} by {N}, {c}.", "The rights were discussed with {N}, {c}.",
        ),
    },
    "company": {
        "person": (
            "Its best-known customer was {N}, {c}.", "For some years it employed the cousin of {N}, {c}.",
            "A portrait in the board room shows {N}, {c}.", "It paid in {y} for a memorial to {N}, {c}.",
            "It was praised in a letter from {N}, {c}.", "A prize was set up in honour of {N}, {c}.",
        ),
        "place": (
            "Its agents travelled as far as {N}, {c}.", "A large order came in {y} from {N}, {c}.",
            "Goods were sent by barge to {N}, {c}.", "A branch was planned but never opened near {N}, {c}.",
        ),
        "work": (
            "Its lobby displays a copy of {N}, {c}.", "An advertisement of {y} borrowed from {N}, {c}.",
            "The staff library lends out {N}, {c}.", "It paid for an evening in praise of {N}, {c}.",
        ),
        "product": (
            "Its drivers and clerks relied on the {N}, {c}.", "It took apart a {N}, {c}, to learn how it was built.",
            "A warehouse sale of {y} got rid of an old {N}, {c}.", "Its office was the first to use the {N}, {c}.",
        ),
        "company": (
            "Its chief rival was {N}, {c}.", "Talks of a merger in {y} were held with {N}, {c}.",
            "It bought spare parts from {N}, {c}.", "It shared a warehouse with {N}, {c}.",
        ),
    },
    "product": {
        "person": (
            "One of the first owners was {N}, {c}.", "A photograph of {y} shows it with {N}, {c}.",
            "An example went at auction to the heirs of {N}, {c}.", "It was praised in print by {N}, {c}.",
            "The story that it was designed for {N}, {c}, is untrue.",
        ),
        "place": (
            "A club of owners meets each {season} in sight of {N}, {c}.", "A test run of {y} ended near {N}, {c}.",
            "Many examples were sold to dealers near {N}, {c}.", "One example is said to have reached {N}, {c}, and come back.",
        ),
        "work": (
            "It is named in passing in a review of {N}, {c}.", "The advertisements quoted {N}, {c}.",
            "Its colours were taken from {N}, {c}.", "A prize for the first buyers was a copy of {N}, {c}.",
        ),
        "product": (
            "It was often compared with the {N}, {c}.", "Its parts do not fit the {N}, {c}.",
            "A test of {y} preferred the {N}, {c}.", "It was priced well below the {N}, {c}.",
        ),
        "company": (
            "A large batch was ordered in {y} by {N}, {c}.", "Its dials were bought from {N}, {c}.",
            "It was sold abroad through {N}, {c}.", "A licence was refused to {N}, {c}.",
        ),
    },
}

# Names without facts: {N} {M}
MENTIONS = (
    "Almanacs of that {season} name {N} and {M} in one breath.", "A list of {y} also has {N} and {M}.", "Similar stories are told of {N} and {M}.",
    "The same yearbook has entries on {N} and {M}.", "See also {N} and {M}.", "The register goes on with {N} and {M}.",
    "Comparisons with {N} and {M} are common.", "A guide of {y} treats {N} and {M} on facing pages.",
    "The same volume deals with {N} and with {M}.", "Much the same has been said of {N} and of {M}.",
)

FILLERS = {
    "person": (
        "{S} rose early, walked for an hour and kept a careful diary.", "A collection of {p} letters was printed in {y}.",
        "Friends remembered {o} as a {quality} companion with a dry sense of humour.", "The winter of {y} was a hard one, and money was short.",
        "{S} never learned to swim, although the sea was never far away.", "A portrait drawn in {y} shows a {quality} face under a broad hat.",
        "{S} refused two honours, accepted a third, and regretted it.", "After {y} {s} travelled less and answered fewer letters.",
        "Not everything in the early accounts can be trusted.", "{S} kept bees, and gave the honey away each {season}.",
        "A fire in {y} destroyed most of the family papers.", "Several anecdotes about {o} are told, few of them true.",
        "The years around {y} were spent in steady work and small quarrels.", "{S} liked long train journeys and disliked speeches.",
    ),
    "place": (
        "The climate is mild, with fog in the {season} and little snow.", "A flood in {y} carried away the lower mills.",
        "The railway came in {y} and changed the pace of daily life.", "Most visitors arrive in {season}, when the gardens are open.",
        "Older houses have steep roofs and painted shutters.", "Fishing and wool were the chief trades until {y}.",
        "The census of {y} counted {number} households.", "A {quality} custom of lighting lamps on the water survives.",
        "A new reservoir was dug in {y} after a dry {season}.", "The bells can be heard far across the fields.",
        "The town hall clock has been five minutes slow since {y}.", "Local cooking is plain, with much rye bread and smoked eel.",
    ),
    "landmark": (
        "The roof was repaired after the storm of {y}.", "Guided tours start on the hour in {season}.",
        "Its {quality} staircase appears on many postcards.", "The doors are of oak and weigh as much as a carriage.",
        "Admission has been free since {y}.", "A café was added under the east windows.",
        "The cellar served as a shelter in hard times.", "The lamps along the front were converted to gas in {y}.",
        "About {number} visitors come on an ordinary day.", "The floor is laid in black and white stone.",
    ),
    "work": (
        "The first reception was cool, but opinion changed after {y}.", "Its tone is {quality}, and the ending is left open.",
        "Copies of the first issue are rare and expensive.", "A shorter version was prepared in {y}.",
        "Students still argue about the meaning of the closing part.", "It was out of fashion for a generation and came back in {y}.",
        "The work took {few} months, with a long pause in {season}.", "A sketch for it was found in a drawer in {y}.",
        "Its first public was small and mostly made up of friends.", "Few changes were made after the first {season}.",
    ),
    "product": (
        "The case is of pressed steel with a {quality} finish.", "A cheaper version went on sale in {y}.",
        "Spare parts were easy to find, which kept it in use for decades.", "Early examples suffered from damp.",
        "About {number} were sold in the first {season}.", "The handbook was rewritten in {y}.",
        "It won a medal at a trade fair in {y}.", "Owners praised its simple repair.", "A later model has a wider base and a softer sound.",
    ),
    "company": (
        "Business was slow until the {season} of {y}.", "A strike in {y} lasted {few} weeks.",
        "The workforce doubled between {y} and {y2}.", "Its early accounts were kept in a single {quality} ledger.",
        "A fire in {y} destroyed the stores, but no one was hurt.", "Wages were paid on Thursdays, an old habit of the house.",
        "The firm's catalogue was famous for its drawings.", "Exports grew after {y} and fell again soon after.",
        "It survived the bank crisis of {y} by selling its horses.", "A canteen and a choir were set up for the staff.",
    ),
}

QUALITIES = ("quiet", "handsome", "modest", "weathered", "cheerful", "solemn", "plain", "graceful", "stubborn", "old-fashioned", "lively", "austere")
SEASONS = ("spring", "summer", "autumn", "winter")
