"""One rule for the names of people, batches and parts; and no name finds what belongs to another."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from blindspot.db.errors import BadInput
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Candidate, Item, Queue
from tests.labelled_studies import labelled_study

ROOT = Path(__file__).parents[1]


@pytest.fixture
def study(tmp_path):
    return labelled_study(tmp_path / "s")


BAD_NAMES = ("", " x", "x ", "a\nb", "a\0", "\ud800", "\u202eann", "x" * 65, "x" * 129)


def test_one_rule_for_the_names_of_people_and_batches(study):
    store, queue, items = People(study.labels_path), Queue(study.labels_path), [Item("P19.dev.0", (Candidate("p0"),))]
    for name in BAD_NAMES:
        for refuses in (store.add, store.invite, lambda bad: queue.add_batch(bad, items, {})):
            with pytest.raises(BadInput, match="use 1 to 64 printable characters"):
                refuses(name)
    assert queue.batches() == []


def test_a_name_that_the_rule_allows_can_be_judged_under(study):
    store, queue = People(study.labels_path), Queue(study.labels_path)
    for name in ("x" * 64, "a__b", "__", "Zoë · Müller", "sam:2"):
        store.add(name)
        queue.add_batch(name, [Item("P19.dev.0", (Candidate("p0"),), assigned_to=name)], {})
        assert [lease.batch for lease in queue.claim(name)] == [name]
        event = {"id": f"k{name}", "kind": "label", "question": "P19.dev.0", "batch": name,
                 "choices": [{"passage": "p0", "label": "positive"}]}  # fmt: skip
        assert [receipt.state for receipt in Labels(study.labels_path).add_all(name, [event])] == ["stored"]
        queue.finish(name, name, "P19.dev.0")


def test_a_component_takes_every_name():
    from blindspot.app.components.judging import component_key

    names = {"a__b", "a_-_b", "a_-_-b", "_", "__", "_-", "x" * 64}
    assert not any("__" in component_key(f"judge-{name}") for name in names)
    assert len({component_key(name) for name in names}) == len(names)


def test_the_outbox_of_one_person_is_not_found_by_another(tmp_path, monkeypatch):
    """Run `outbox.js` in Node with the sessions of the pages."""
    if shutil.which("node") is None:
        pytest.skip("needs node")
    from blindspot.app.components import judging
    from blindspot.db.people import Person

    people_here = ["sam", "sam:2", "sam:adjudicate", "sam:question", "sam\u00a02", "sam:" + "a" * 32]
    sessions = {
        f"{name}|{mode}": judging.session(tmp_path / "labels.db", Person(name, "lead"), mode)
        for name in people_here
        for mode in ("", "adjudicate", "question")
    }
    script = tmp_path / "run.js"
    script.write_text(
        """
const store = new Map();
globalThis.localStorage = new Proxy({
  getItem: (key) => store.get(key) ?? null, setItem: (key, value) => store.set(key, value), removeItem: (key) => store.delete(key),
}, { ownKeys: () => [...store.keys()], getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }) });
globalThis.window = { addEventListener() {}, removeEventListener() {} };
"""
        + (ROOT / "app/components/judging/outbox.js").read_text()
        + f"\nconst sessions = {json.dumps(sessions)};\n"
        + """
const found = {};
for (const [name, session] of Object.entries(sessions)) {
  const box = new Outbox(`blindspot-outbox:${session}`, () => {});
  box.entries = [{ id: name, kind: "note" }]; box.store(); box.stop();
}
for (const [name, session] of Object.entries(sessions)) {
  const box = new Outbox(`blindspot-outbox:${session}`, () => {});
  found[name] = box.entries.map((entry) => entry.id).sort(); box.stop(); store.delete(box.key);
}
const box = new Outbox("blindspot-outbox:x:zoe", () => {});
box.deliver = () => {};
const said = [box.status()];
const a = box.push({ kind: "note" }), b = box.push({ kind: "note" });
said.push(box.status());
box.received([{ id: a.id, state: "stored" }, { id: b.id, state: "refused", message: "no" }], 1, null);
said.push(box.status());
box.refused.length = 0;
said.push(box.status());
box.stop();
console.log(JSON.stringify({ found, said }));
"""
    )
    done = subprocess.run(["node", str(script)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    for name, ids in result["found"].items():
        who, mode = name.split("|")
        assert {id.split("|")[0] for id in ids} == {who}, name
        assert name in ids and (mode == "" or ids == [name])
    assert result["said"] == ["✓ all saved", "2 unsaved", "1 not saved (refused)", "1 not saved (refused)"]
