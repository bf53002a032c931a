"""Rights: one table of actions and the roles that may do them. Every store, job and page consults this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["annotator", "adjudicator", "lead"]
ROLES: tuple[Role, ...] = get_args(Role)

EVERYBODY = ROLES
SETTLERS = ("adjudicator", "lead")
LEADS = ("lead",)
NOBODY: tuple[str, ...] = ()  # done from the command line alone


@dataclass(frozen=True, slots=True)
class Action:
    """Something that a person may do.

    Attributes:
        description: the action in words, for the docs and for error messages ("you may not ...").
        roles: the roles that may do it.
        unnamed: whether the local app allows it to a person who has not yet given a name. The command line may do
            everything.
    """

    description: str
    roles: tuple[str, ...]
    unnamed: bool = False


# fmt: off
ACTIONS: dict[str, Action] = {
    "see results":          Action("open every page but Judge, ask a question of one's own", SETTLERS, True),
    "judge":                Action("judge the questions of the queue, undo one's own labels", EVERYBODY),
    "tag questions":        Action("tag questions with one's own words, remove tags", SETTLERS),
    "see others' labels":   Action("see the labels of other people, agreement, and what follows from them", SETTLERS),
    "adjudicate":           Action("adjudicate disputed passages", SETTLERS),
    "save slices":          Action("save and delete slices", SETTLERS, True),
    "make batches":         Action("make batches of questions to judge", LEADS, True),
    "manage batches":       Action("close, open and assign batches, set how many people a question needs", LEADS),
    "manage people":        Action("add, invite, pause and revoke people, set roles", LEADS),
    "change settings":      Action("change the study's settings", NOBODY),
    "set the unit":         Action("set the study's unit of observation", LEADS, True),
    "import":               Action("import passages, questions and runs", LEADS, True),
    "index":                Action("build indexes", LEADS, True),
    "retrieve":             Action("retrieve with an index over a question set", LEADS, True),
    "make maps":            Action("make a map", LEADS, True),
    "build training sets":  Action("build a training set", LEADS, True),
    "train":                Action("train, score and try models", LEADS, True),
    "read":                 Action("read answers with a reader", LEADS, True),
    "experiment":           Action("run an experiment", LEADS, True),
    "start other jobs":     Action("start any other job", LEADS, True),
    "cancel jobs":          Action("cancel a job", LEADS, True),
    "manage parts":         Action(("delete runs, batches, training sets, models and "
        "maps"), LEADS, True),
    "export":               Action("export runs, training sets, models and reports", LEADS, True),
    "export labels":        Action("export labels", LEADS),
    "back up":              Action("back up, restore and import labels", NOBODY),
}
# fmt: on

JOBS: dict[str, str] = {
    "import": "import",
    "count": "import",
    "index": "index",
    "retrieve": "retrieve",
    "map": "make maps",
    "build": "build training sets",
    "train": "train",
    "score": "train",
    "try": "train",
    "learn": "train",
    "add": "train",
    "judge": "train",
    "read": "read",
    "experiment": "experiment",
    "make": "make batches",
    "demo": "train",
    "simulate": "make batches",
    "write": "export",
}
"""The first word of a job's kind, and the action to which starting such a job belongs. Every other job is "start other
jobs".
"""


def role_allows(role: str, action: str) -> bool:
    """Whether a role may do an action."""
    return role in ACTIONS[action].roles


def required_role(action: str) -> str:
    """Return what an action requires, for error messages: the lowest role that may do it."""
    roles = ACTIONS[action].roles
    return f"this takes the role {roles[0]}" if roles else "this is done from the command line"


def action_of_job(kind: str) -> str:
    """The action to which starting a job of this kind belongs."""
    return JOBS.get(kind.partition(" ")[0], "start other jobs")
