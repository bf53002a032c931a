"""The words that form the names of the generated encyclopedia, and the possible objects of relations.

The order of each list determines what a seed generates, so changing a list changes every encyclopedia. The lists are
long enough for 1,000,000 passages. `names` combines the words into unique names.
"""

from __future__ import annotations

FEMALE_NAMES = """Mara Maren Marna|Ilsa Ilse Ilsabet|Thea Theda Thera|Linnea Linna Lindra|Odile Odila Odina
|Brisa Brita Brienna|Anneke Annika Annis|Corisa Corinna Corynn|Delia Delphie Delora|Elspeth Elsbet Elspa
|Fenna Fenella Fenja|Greta Gretel Gretina|Halla Halda Haldis|Jorun Jorid Jorina|Katrin Katya Katla
|Livia Livna Livet|Nerys Neris Nerida|Petra Petrina Petronel|Runa Runild Runette|Sunniva Sunna Sunnild"""

MALE_NAMES = """Aldren Aldwin Alden|Bertil Bertol Bertram|Casimir Casper Caspian|Dorian Dorin Dorrel|Edric Edmar Edwin
|Fabian Fabrin Fabrice|Gareth Garrick Garrin|Hendrik Henning Hendry|Ivar Ivor Iven|Joren Jorrit Jorath
|Konrad Korbin Konstan|Lucan Lucas Lucian|Matthis Mathis Matten|Niall Niels Nilan|Osric Oswin Oskar
|Pavel Pavlin Paval|Roderic Roland Rodan|Stellan Stefan Steffen|Tobin Tobias Tobar|Ulric Ulfar Uldis"""


def _similar_name_groups(names: str) -> tuple[tuple[str, ...], ...]:
    """Return groups of given names that differ by a letter or two, for near-namesakes."""
    return tuple(tuple(cluster.split()) for cluster in names.replace("\n", "").split("|"))


GIVEN_CLUSTERS = tuple((cluster, "female") for cluster in _similar_name_groups(FEMALE_NAMES)) + tuple(
    (cluster, "male") for cluster in _similar_name_groups(MALE_NAMES)
)
CHILD_NAMES = {
    "daughter": "Adela Beata Cecily Dagny Edda Frida Gisela Hilde Inga Josepha Lotte Minna Nora Oriel Pia Rosalind".split(),
    "son": "Anselm Bruno Clemens Didrik Emil Felix Gustav Hugo Isak Jonas Leif Magnus Otto Philip Ruben Soren".split(),
}

FAMILY_STARTS = """Ash Bal Bram Bren Cald Carr Corv Dal Darn Dorn Eld Ern Fald Fen Gal Garr Gild Hal Harr Hest Holm Hov
Ing Jarr Jel Kald Kel Kest Kir Lang Lath Lind Lor Lund Mal Marr Mel Merr Mor Nal Ness Nor Oak Orr Oster Pell Penn
Pram Quill Rad Rav Ren Rill Rost Rud Sal Sard Sel Sher Silv Stav Stel Strand Tal Tarn Tell Thorn Tor Trev Ulv Und Val
Varr Vel Vest Vind Wald Warr Wel Wes Win Wyn Yar Yel Zell Zim Brock Crom Drev Frost Hart""".split()
FAMILY_ENDS = """den dern din|ner nes nell|ling lin lund|mark mart marc|wick wig wich|gard gart garth|stad sted stead|man mann mand
|field feld felt|ley low lo|mere mer mir|rane ren ran|rick ridge rich|roth rod rud|sen son ser|shaw shore sher
|stone ston sten|thorpe torp thrup|vale vall vel|ward werd worth|well wel wall|brook brock bruck|dahl dal dale
|gren green grun|hagen haven haben|heim holm ham|kamp camp kemp|kvist quist twist|strom strum stream|vik vang ving
|born burn bourn|croft craft kraft|hill hell hall|berg borg burg""".replace("\n", "").split("|")

TOWN_STARTS = """Ab Ald Arn Bark Bel Bol Bryn Cam Cast Chel Clay Cor Cran Dal Deep Der Dun East Ed Elm Ex Fair Fal Far
Fox Gar Glen Gray Grim Had Ham Har Hav Heath Hex Hol Horn Hul Ill Ket Kil Kings Knar Lamb Lans Lav Leam Lin Lock Lud
Mal Mar Mel Mid Mil Mon Nant New Nor Oak Old Or Ot Pen Pet Pol Queens Rad Ram Red Rip Ross Rus Sal Sed Sel Shep Skel
Stan Stow Sut Tam Tav Tew Thax Thirl Tren Up Wal War Wel West Wim Wood Yarn""".split()
TOWN_MIDDLES = "en in an on|er ar or ur|el il al ol|ing ung ang ong|em im am um".split("|")
TOWN_ENDS = """ford haven bury minster mouth burgh stead port holme cross bridge castle ham gate market ton wick pool
cliff side beach bourne chester combe cote dean don down fleet hythe law leigh ley marsh moor nor pen reach rock shore
sea stoke thwaite""".split()

COUNTRY_STARTS = """Norv Aust Bel Cald Dorm Est Fern Gald Hesp Isk Jov Kast Lyr Mord Nem Ost Palt Quor Rhov Salv Tarq
Ulm Vand Wend Xan Yll Zar Brav Crest Drav""".split()
COUNTRY_ENDS = ("ania", "avia", "mark", "oria", "land", "essa")
LANGUAGE_ENDS = ("anic", "avish", "mese", "oric", "landic", "essic")
REGION_WORDS = ("Highlands", "Valley", "Coast", "Marches", "Plain", "Lowlands", "Hills", "Lakes")

ADJECTIVES = """Silent Silver Winter Hidden Golden Broken Distant Gentle Hollow Burning Quiet Crimson Northern Scarlet
Patient Drowned Wandering Borrowed Frozen Paper Bitter Early Faithful Weathered Amber Restless Lonely Painted Autumn
Sleeping Glass Midnight Tender Copper Wild Narrow Secret Blue Fading Iron Last Velvet Southern Sudden Ivory Lost Salt
Summer Thirsty Unwritten Violet Wooden Young Ancient Barefoot Careful Dusty Emerald Foreign Green Honest Idle Jealous
Kindly Lantern Marble Nameless Open Pale Quick Ragged Shining Twilight Upright Vanished White Yellow Blind Crooked
Dancing Endless Floating""".split()
NOUNS = """River Harbour Garden Orchard Lighthouse Mountain Window Letter Bridge Meadow Mirror Island Forest Candle
Station Daughter Stranger Bell Avenue Ferry Shadow Stone Tide Tower Heron Valley Crown Kingdom Clock Lantern Market
Ocean Sparrow Storm Stair Field House Fountain Ship Horse Wheel Moon Rose Door Canal Castle Chapel Compass
Desert Dream Feather Fisherman Fox Gate Glacier Hill Horizon Journey Kite Lake Library Machine Mill Miner Morning
Nightingale Oak Palace Pilgrim Prairie Promise Quarry Rain Raven Sailor Shore Sister Snow Soldier Song Spring Star
Street Summer Swan Theatre Thread Train Traveller Tree Vineyard Voyage Wall Watchman Well Whale Willow Wind Wolf Wood
Acrobat Balcony Circus Diary Embroidery Flute Gallery Hunter Inn Jewel Key Loom Monastery Necklace Oracle Parade
Quilt Riddle Sermon Tapestry""".split()

# {a} an adjective, {aa} with its article, {n} a noun, {number} its number in a series. No form is a substring
# of another.
TITLES = {
    "novel": ("The {a} {n}", "Letters from {aa} {n}", "Beyond My {a} {n}", "One {a} {n}", "Her {a} {n}"),
    "painting": ("Study of {aa} {n}, No. {number}", "{a} {n}, Panel {number}", "Woman with {aa} {n}, No. {number}"),
    "song": ("Carry My {a} {n}", "Goodbye, {a} {n}", "Under Your {a} {n}"),
    "label": ("{a} {n} Records", "{a} {n} Recordings", "{a} {n} Sound"),
}
MAKER_WORDS = ("Motors", "Instruments", "Works", "Optics", "Engines", "Tools")
LANDMARK_WORDS = ("Museum", "Gallery", "Theatre", "Library", "Hall", "Observatory", "Arcade", "Pavilion")
PRODUCT_ENDS = "ex on ara ette ino ix or ane el ova ist ura ero eon ima alis enta olis ado ique".split()
PRODUCT_NUMBERS = (
    "10 12 14 16 18 20 24 28 30 32|40 45 50 55 60 65 70 75 80 90|100 120 150 180 200 240 250 300 320 400".split("|")
)
SERIES_NUMBERS = range(1, 13)
PRODUCT_KINDS = ("motorcycle", "camera", "typewriter", "tractor", "radio", "sewing machine")

OCCUPATIONS = {
    "writer": (
        ("novelist",),
        ("playwright", "dramatist"),
        ("journalist", "newspaper reporter"),
        ("historian",),
        ("essayist",),
    ),
    "musician": (("violinist", "fiddler"), ("singer", "vocalist"), ("pianist",), ("trumpeter",), ("guitarist",)),
    "footballer": (("footballer", "football player"), ("footballer", "professional football player")),
    "painter": (("painter",), ("sculptor",), ("printmaker", "engraver"), ("illustrator",)),
    "founder": (
        ("engineer",),
        ("merchant", "trader"),
        ("inventor",),
        ("chemist",),
        ("watchmaker", "clockmaker"),
        ("lawyer", "barrister"),
    ),
}
POSITIONS = (
    ("goalkeeper", "keeper"),
    ("left back", "left-back"),
    ("right back", "right-back"),
    ("centre half", "central defender"),
    ("midfielder",),
    ("winger",),
    ("striker", "centre forward"),
    ("sweeper",),
)
GENRES = (
    ("jazz",),
    ("folk music", "folk songs"),
    ("chamber music",),
    ("blues",),
    ("swing",),
    ("church music", "sacred music"),
    ("dance music",),
    ("brass band music",),
    ("opera", "operatic music"),
    ("country music",),
    ("rock and roll",),
    ("ballads",),
)
NOTABLE = {
    "writer": ("{n} Sonnets", "{a} Chronicles", "{n} Dialogues"),
    "musician": ("{a} Suite", "{n} Sessions", "{n} Variations"),
    "painter": ("{a} Frescoes", "{n} Panels", "{a} Altarpiece"),
    "founder": ("{a} Lamp", "{n} Engine", "{a} Patent"),
}
SCHOOLS = (
    ("University of {t}", "{t} University"),
    ("{t} Academy",),
    ("{t} Conservatory",),
    ("{t} Grammar School",),
    ("{t} Polytechnic",),
    ("Royal College of {t}",),
)
