"""What fills the articles of the generated encyclopedia beside their own facts: how one article comes to speak of
another's subject, sentences that only name entities, and sentences that belong to a kind of subject and state nothing
that is ever asked. The keys are those of `language`; {aN} is a name with its article.
"""

from __future__ import annotations

# By the group of the article's subject, then of the entity that is told of. {c} is a clause with a fact of that entity;
# a frame reads well without its ", {c}" too.
FRAMES = {
    "person": {
        "person": (
            "{S} exchanged letters for many years with {N}, {c}.", "{P} notebooks of {y} often mention {N}, {c}.",
            "In these years {p} closest ally was {N}, {c}.", "{S} dedicated a late essay to {N}, {c}.",
            "{S} once shared a railway compartment with {N}, {c}.", "A quarrel with {N}, {c}, was patched up in {y}.",
            "{S} spoke at the funeral of a cousin of {N}, {c}.", "A story that {s} liked to tell was about {N}, {c}.",
            "Next door, for a few years, lived {N}, {c}.", "{S} lent money in {y} to {N}, {c}.",
        ),
        "place": (
            "In {y} {s} made a long visit to {N}, {c}.", "{P} travel diary describes {N}, {c}.",
            "{S} often spoke of {N}, {c}.", "For {few} summers {s} rented rooms near {N}, {c}.",
            "A map of {N}, {c}, hung over the desk.", "Illness kept {o} in {y} from a journey to {N}, {c}.",
        ),
        "building": (
            "{S} gave {few} public talks at {N}, {c}.", "{P} papers are deposited with {N}, {c}.",
            "{S} signed the visitors' book of {N}, {c}.", "A bust of {o} was offered in {y} to {N}, {c}.",
        ),
        "work": (
            "{S} counted among the admirers of {N}, {c}.", "{S} could not bear {N}, {c}, and said so.",
            "{P} letters praise {N}, {c}.", "{S} gave a public talk on {N}, {c}.",
            "Late in life {s} came to love {N}, {c}.",
        ),
        "product": (
            "{S} bought {aN}, {c}, and kept it in good order.", "A photograph of {y} shows {o} beside {aN}, {c}.",
            "{S} never parted with an old {N}, {c}.", "The estate included {aN}, {c}.",
        ),
        "company": (
            "{S} held a few shares in {N}, {c}.", "{S} gave advice for a time to {N}, {c}.",
            "A small pension came from {N}, {c}.", "{P} papers include bills from {N}, {c}.",
            "In {y} {s} went to law against {N}, {c}.",
        ),
    },
    "country": {
        "person": (
            "A stamp of {y} shows {N}, {c}.", "Its coins once carried a portrait of {N}, {c}.",
            "Every child at school here learns about {N}, {c}.",
            "A state funeral was refused in {y} to {N}, {c}.", "A passport was granted in {y} to {N}, {c}.",
            "Its first census was criticised by {N}, {c}.",
        ),
        "place": (
            "A treaty of {y} was signed in sight of {N}, {c}.", "Its consuls reported at length on {N}, {c}.",
            "Its ships called every {season} at {N}, {c}.", "Many emigrants of {y} set out for {N}, {c}.",
        ),
        "building": (
            "Its gift of {y} can still be admired at {N}, {c}.", "Its flag was lent for a pageant at {N}, {c}.",
            "Its treaties are copied at {N}, {c}.",
        ),
        "work": (
            "Its anthem was compared in {y} with {N}, {c}.",
            "A minister quoted in parliament from a review of {N}, {c}.",
            "For a time its censors banned {N}, {c}.", "A stamp of {y} alludes to {N}, {c}.",
        ),
        "product": (
            "Its post office ordered the {N}, {c}, by the hundred.",
            "Customs duty was raised in {y} on the {N}, {c}.",
            "Its army tested {aN}, {c}, and sent it back.",
        ),
        "company": (
            "Its railways were laid with the help of {N}, {c}.", "A state loan of {y} was taken up by {N}, {c}.",
            "Its mint bought presses from {N}, {c}.", "Its tariff was aimed at {N}, {c}.",
        ),
    },
    "place": {
        "person": (
            "A street near the station is named after {N}, {c}.", "Among its honorary citizens is {N}, {c}.",
            "A plaque of {y} recalls a visit by {N}, {c}.", "The local archive keeps letters from {N}, {c}.",
            "Each {season} a lecture is held in memory of {N}, {c}.", "Older residents remember {N}, {c}.",
            "The school was opened in {y} by {N}, {c}.", "In {y} rooms above the bakery were let to {N}, {c}.",
        ),
        "place": (
            "A twinning treaty of {y} links {s} with {N}, {c}.", "The old post road ran on towards {N}, {c}.",
            "The {season} market drew traders from {N}, {c}.", "Stone for the new quay was shipped from {N}, {c}.",
            "Many families moved here in {y} from {N}, {c}.",
        ),
        "building": (
            "A model in the town hall shows {N}, {c}.", "School parties are taken every {season} to {N}, {c}.",
            "The town lent {few} paintings to {N}, {c}.", "Its new market hall was copied from {N}, {c}.",
        ),
        "work": (
            "A local society organised an evening on {N}, {c}.", "In {y} the vicar preached against {N}, {c}.",
            "Schools here use {N}, {c}, in their lessons.", "An exhibition of {y} was devoted to {N}, {c}.",
        ),
        "product": (
            "In the yard of the inn stands {aN}, {c}.", "A prize draw of {y} offered {aN}, {c}.",
            "The council ordered {aN}, {c}.", "A collector here shows visitors {aN}, {c}.",
        ),
        "company": (
            "The tram line was ordered from {N}, {c}.", "Many families here lived on wages from {N}, {c}.",
            "In {y} the council signed a contract with {N}, {c}.", "A depot near the river was leased to {N}, {c}.",
        ),
    },
    "building": {
        "person": (
            "Its main room is named after {N}, {c}.", "A bench at the entrance was given by {N}, {c}.",
            "The first guest book opens with the name of {N}, {c}.", "In {y} it held a reception for {N}, {c}.",
            "A small display on the stairs is about {N}, {c}.", "Its cellar holds a trunk that belonged to {N}, {c}.",
        ),
        "place": (
            "A painted map on the wall shows {N}, {c}.", "Its marble was quarried near {N}, {c}.",
            "A delegation came in {y} from {N}, {c}.", "The ceiling shows scenes of {N}, {c}.",
        ),
        "building": (
            "Its plan was taken from {N}, {c}.", "A joint ticket is sold with {N}, {c}.",
            "Its keys were once exchanged by mistake with those of {N}, {c}.",
        ),
        "work": (
            "An evening in {y} was given over to {N}, {c}.", "Its shop sells postcards about {N}, {c}.",
            "A frieze in the hall alludes to {N}, {c}.",
        ),
        "product": (
            "In its yard, under glass, stands {aN}, {c}.", "A raffle of {y} for its roof offered {aN}, {c}.",
            "The caretaker swears by an old {N}, {c}.",
        ),
        "company": (
            "Its lamps were supplied by {N}, {c}.", "The east wing was paid for by {N}, {c}.",
            "In {y} it was let for a banquet to {N}, {c}.",
        ),
    },
    "work": {
        "person": (
            "An early admirer was {N}, {c}.", "A dedication was added for {N}, {c}.",
            "It was a favourite of {N}, {c}.",
            "A review of {y} sets {s} against the taste of {N}, {c}.", "Some find in it a likeness of {N}, {c}.",
            "It was praised in public by {N}, {c}.", "It was mocked in {y} by {N}, {c}.",
            "A parody of it was sent to {N}, {c}.",
        ),
        "place": (
            "Some details are thought to recall {N}, {c}.",
            "A prize was awarded to it in {y} by visitors from {N}, {c}.",
            "A first version was lost on the road to {N}, {c}.", "Memories of {N}, {c}, stand behind it.",
        ),
        "building": (
            "A talk about it was given in {y} at {N}, {c}.", "It inspired a window in {N}, {c}.",
            "A festival of {y} at {N}, {c}, was named after it.",
        ),
        "work": (
            "Critics have set it beside {N}, {c}.", "It owes a debt to {N}, {c}.",
            "In a survey of {y} it came second to {N}, {c}.",
            "It is often confused with {N}, {c}.", "A pupil's essay of {y} prefers it to {N}, {c}.",
        ),
        "product": (
            "A poster of {y} sets it beside {aN}, {c}.", "Its first fee was spent on {aN}, {c}.",
            "A prize for the best essay about it was {aN}, {c}.",
            "In {y} it lent its name to a series of the {N}, {c}.",
        ),
        "company": (
            "Permission to copy it was given to {N}, {c}.", "A calendar in its honour was printed for {N}, {c}.",
            "It was used in {y} in an advertisement for {N}, {c}.",
            "The rights were discussed at length with {N}, {c}.",
        ),
    },
    "product": {
        "person": (
            "One of the first customers was {N}, {c}.", "A photograph of {y} shows it with {N}, {c}.",
            "An example went at auction to the heirs of {N}, {c}.", "It was praised in print by {N}, {c}.",
            "The story that it was designed for {N}, {c}, is untrue.",
        ),
        "place": (
            "A club of enthusiasts meets each {season} in sight of {N}, {c}.",
            "A test run of {y} ended near {N}, {c}.",
            "Many examples were sold to dealers near {N}, {c}.",
            "One example is said to have reached {N}, {c}, and come back.",
        ),
        "building": (
            "An early example is shown on open days at {N}, {c}.", "A trade show of {y} displayed it at {N}, {c}.",
            "The caretakers of {N}, {c}, still use one.",
        ),
        "work": (
            "The advertisements quoted a review of {N}, {c}.", "Its colours were taken from {N}, {c}.",
            "Its nickname was borrowed in {y} from {N}, {c}.",
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
    "company": {
        "person": (
            "Its best-known customer was {N}, {c}.", "For some years it employed a cousin of {N}, {c}.",
            "A portrait in the board room shows {N}, {c}.", "It paid in {y} for a memorial to {N}, {c}.",
            "It was praised in a letter from {N}, {c}.", "A prize was set up in honour of {N}, {c}.",
            "Its annual report for {y} thanks {N}, {c}.", "A pension was paid by mistake to {N}, {c}.",
        ),
        "place": (
            "Its agents travelled as far as {N}, {c}.", "A large order came in {y} from {N}, {c}.",
            "Goods were sent by barge to {N}, {c}.", "A branch was planned but never opened near {N}, {c}.",
        ),
        "building": (
            "It paid in {y} for the new windows of {N}, {c}.", "Its jubilee was held at {N}, {c}.",
            "A bell was given to {N}, {c}, in its name.",
        ),
        "work": (
            "Its lobby displays a print about {N}, {c}.", "An advertisement of {y} borrowed from {N}, {c}.",
            "It paid for an evening in praise of {N}, {c}.",
        ),
        "product": (
            "Its drivers and clerks relied on the {N}, {c}.",
            "Its apprentices took apart {aN}, {c}, to learn how it was built.",
            "A warehouse sale of {y} got rid of an old {N}, {c}.", "Its office was the first to use the {N}, {c}.",
        ),
        "company": (
            "Its chief rival was {N}, {c}.", "Talks of a merger in {y} were held with {N}, {c}.",
            "It bought spare parts from {N}, {c}.", "It shared a warehouse with {N}, {c}.",
        ),
    },
}
for _frames in FRAMES.values():
    _frames["country"] = _frames["place"]

# One more sentence about an entity that has just been told of, without a fact.
FOLLOWING = {
    "person": (
        "{S} was much talked of in those days.", "Opinions of {o} differ to this day.",
        "Little else is known here about {o}.",
        "An album with pictures of {o} has come down to us.", "{S} is said to have been a patient listener.",
        "Not everyone was fond of {o}.",
        "A short life of {o} appeared in {y}.", "{S} kept in touch until {y}.",
    ),
    "place": (
        "Few places were as lively in {season} as {o}.", "{S} was a good deal larger then than now.",
        "Old views of {o} fetch high prices.",
        "People spoke of {o} with affection.", "A guide to {o} appeared in {y}.",
    ),
    "building": (
        "{S} draws a steady stream of visitors.", "Prints of {o} were sold in every station.",
        "{S} was covered in scaffolding at the time.", "Opinions about {o} were divided.",
    ),
    "work": (
        "Almost everyone knew {o} at the time.", "Opinions on {o} were divided.",
        "{S} had by then gone out of fashion.",
        "Much has been said since then about {o}.", "An essay on {o} appeared in {y}.",
    ),
    "product": (
        "Few machines were as sturdy as {o}.", "{S} was then still a rarity.", "A handbook for {o} appeared in {y}.",
        "{S} has its collectors today.",
    ),
    "company": (
        "{S} was at the height of its success.", "A history of {o} was printed in {y}.",
        "Business at {o} was brisk in those years.", "The name of {o} stood for solid work.",
    ),
}  # fmt: skip
FOLLOWING["country"] = FOLLOWING["place"]

# Names without facts.
MENTIONS = (
    "Almanacs of that {season} name {N} and {M} in one breath.", "A list of {y} also has {N} and {M}.",
    "Similar stories are told of {N} and {M}.",
    "The same yearbook has entries on {N} and {M}.", "See also {N} and {M}.",
    "The register goes on with {N} and {M}.",
    "Comparisons with {N} and {M} are common.", "A guide of {y} treats {N} and {M} on facing pages.",
    "The same volume deals with {N} and with {M}.", "Much the same has been said of {N} and of {M}.",
    "Newspapers of {y} had more to say about {N} and {M}.", "The literature also touches on {N} and {M}.",
    "A radio talk of {y} dealt with {N} and {M} as well.", "In the older indexes the next entries are {N} and {M}.",
    "Letters of the period speak of {N} and {M} in the same way.", "A footnote refers the reader to {N} and to {M}.",
)

FILLERS = {
    "person": (
        "{S} rose early, walked for an hour and kept a careful diary.",
        "A collection of {p} letters was printed in {y}.",
        "Friends remembered {o} as a {quality} companion with a dry sense of humour.",
        "The winter of {y} was a hard one, and money was short.",
        "{S} never learned to swim, although the sea was never far away.",
        "A portrait drawn in {y} shows a {quality} face under a broad hat.",
        "{S} refused {few} honours, accepted one, and regretted it.",
        "After {y} {s} travelled less and answered fewer letters.",
        "Not everything in the early accounts can be trusted.",
        "{S} kept bees, and gave the honey away each {season}.",
        "A fire in {y} destroyed most of the family papers.",
        "Several anecdotes about {o} are told, few of them true.",
        "The years around {y} were spent in steady work and small quarrels.",
        "{S} liked long train journeys and disliked speeches.",
        "Of {p} {few} brothers and sisters only one is mentioned in the letters.",
        "A long illness in {y} changed {p} habits for good.",
        "{S} spoke slowly, in a {quality} voice that carried to the back of any hall.",
        "From {y} on {s} spent every {season} by the sea.",
        "Money never stayed with {o} for long.", "A biography announced in {y} was never finished.",
    ),
    "country": (
        "Rye, timber and salted fish have long been the chief exports.",
        "A land reform in {y} broke up the largest estates.",
        "The army was reduced to {number} men after the peace of {y}.",
        "Long winters and late springs mark the north.",
        "The coinage was changed in {y}, and old coins are still found in gardens.",
        "Elections are held every {few} years, always in {season}.",
        "The coast is flat in the west and broken by inlets in the east.",
        "A {quality} code of law from {y} is still quoted by judges.",
        "There are {few} public holidays, most of them in {season}.",
        "The railways were taken over by the state in {y}.",
        "Its forests cover a third of the land.", "A census taken in {y} was the first to count women.",
    ),
    "place": (
        "The climate is mild, with fog in the {season} and little snow.",
        "A flood in {y} carried away the lower mills.",
        "The railway came in {y} and changed the pace of daily life.",
        "Most visitors arrive in {season}, when the gardens are open.",
        "Older houses have steep roofs and painted shutters.", "Fishing and wool were the chief trades until {y}.",
        "The census of {y} counted {number} households.",
        "A {quality} custom of lighting lamps on the water survives.",
        "A new reservoir was dug in {y} after a dry {season}.", "The bells can be heard far across the fields.",
        "The town hall clock has been five minutes slow since {y}.",
        "Local cooking is plain, with much rye bread and smoked eel.",
        "A ferry crosses the river {few} times a day.",
        "The old walls were pulled down in {y} to make room for a park.",
        "Football is played on the meadow behind the gasworks.",
        "A brass band of {few} players leads the {season} parade.",
    ),
    "building": (
        "The roof was repaired after the storm of {y}.", "Guided tours start on the hour in {season}.",
        "Its {quality} staircase appears on many postcards.", "The doors are of oak and weigh as much as a carriage.",
        "Admission has been free since {y}.", "A small restaurant was added under the east windows.",
        "The cellar served as a shelter in hard times.", "The lamps along the front were converted to gas in {y}.",
        "About {number} visitors come on an ordinary day.", "The floor is laid in black and white stone.",
        "Swallows nest under the eaves every {season}.", "A plan of {y} to pull it down came to nothing.",
    ),
    "work": (
        "The first reception was cool, but opinion changed after {y}.",
        "Its tone is {quality}, and the ending is left open.",
        "Good copies are rare and expensive.", "A shorter version was prepared in {y}.",
        "Students still argue about the meaning of its darker parts.",
        "It was out of fashion for a generation and came back in {y}.",
        "The work took {few} months, with a long pause in {season}.", "A sketch for it was found in a drawer in {y}.",
        "Its first public was small and mostly made up of friends.",
        "Few changes were made after the first {season}.",
        "Its {quality} opening is the part that most people remember.",
        "A scandal in {y} did it more good than harm.",
        "Nobody has explained the title to everyone's satisfaction.",
        "There have been {few} serious studies of it so far.",
    ),
    "product": (
        "The case is of pressed steel with a {quality} finish.", "A cheaper version went on sale in {y}.",
        "Spare parts were easy to find, which kept it in use for decades.", "Early examples suffered from damp.",
        "About {number} were sold in the first {season}.", "The handbook was rewritten in {y}.",
        "It won a medal at a trade fair in {y}.", "Customers praised its simple repair.",
        "A later model has a wider base and a softer sound.",
        "Green was the usual colour until {y}.", "It weighs little more than {few} bricks.",
    ),
    "company": (
        "Business was slow until the {season} of {y}.", "A strike in {y} lasted {few} weeks.",
        "The workforce doubled between {y} and {y2}.", "Its early accounts were kept in a single {quality} ledger.",
        "A fire in {y} destroyed the stores, but no one was hurt.",
        "Wages were paid on Thursdays, an old habit of the house.",
        "Its catalogue was famous for its drawings.", "Exports grew after {y} and fell again soon after.",
        "It survived the bank crisis of {y} by selling its horses.",
        "A canteen and a choir were set up for the staff.",
        "Its letter paper carried a {quality} engraving of a lighthouse.", "In {y} the night shift was given up.",
        "Apprentices were taken on every {season}.", "A dispute over patents dragged on for {few} years.",
    ),
}

QUALITIES = (
    "quiet", "handsome", "modest", "weathered", "cheerful", "solemn", "plain", "graceful", "stubborn", "dignified", "lively", "stern",
)  # fmt: skip
SEASONS = ("spring", "summer", "autumn", "winter")
