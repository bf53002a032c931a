// Labelling on the Question page. Buttons in the focused passage of either list and the keys of the Judge page label it, and each
// label shows in the list. These labels are not blind: ranks and scores are visible.

const KEYS = { 1: "positive", 2: "related", 3: "negative", 0: "unsure" };
const SIGNS = { positive: "✓", related: "~", negative: "✕", unsure: "?" };
const pages = new Map();

class OnQuestion {
  constructor(data, parent) {
    this.outbox = new Outbox(`blindspot-outbox:${data.session}`, () => this.paintStatus());
    this.words = node("span", { class: "soft" });
    this.tap = node("span", { class: "soft touch-only" }, "Tap a passage to label it.");
    this.buttons = node("div", { class: "judge on-question hit-labels", role: "group", "aria-label": "Label this passage" },
      ...["1", "2", "3", "0"].map((key) => node("button", { type: "button", class: `label ${KEYS[key]}`, "data-label": KEYS[key],
        onclick: () => this.label(KEYS[key], this.buttons.closest(".hit[data-id]")) }, `${SIGNS[KEYS[key]]} ${KEYS[key]}`)));
    this.status = node("span", { class: "status", role: "status" });
    this.banner = node("div", { class: "banner", role: "alert", hidden: true });
    this.region = node("div", { class: "unseen", "aria-live": "polite" });
    this.root = node("section", { class: "judge on-question", "aria-label": "Your labels" },
      node("div", { class: "judge-bar" }, this.words, this.tap, this.status), this.banner, this.region);
    this.mount(parent);
    this.onKey = (event) => this.pressed(event);
    this.onFocus = (event) => this.offer(event.target.closest?.(".hit[data-id]"));
    document.addEventListener("keydown", this.onKey);
    document.addEventListener("focusin", this.onFocus);
    this.observer = new MutationObserver(() => this.schedule());
    this.observer.observe(document.body, { childList: true, subtree: true });
  }

  stop() {
    document.removeEventListener("keydown", this.onKey);
    document.removeEventListener("focusin", this.onFocus);
    this.buttons.remove();
    this.observer.disconnect();
    this.outbox.stop();
    for (const chip of document.querySelectorAll(".my-label")) chip.remove();
  }

  mount(parent) {
    const place = parent.querySelector("[data-question_labels]") ?? parent;
    if (this.root.parentNode !== place) place.replaceChildren(this.root);
  }

  receive(data) {
    this.data = data;
    this.outbox.received(data.receipts, data.attempt, data.trouble);
    this.paint();
  }

  get live() { return liveEvents(this.data.history, this.outbox.entries); }

  labels() {
    return labelsOf(this.data.question, null, this.data.given, this.live, this.data.history, this.outbox.entries);
  }

  pressed(event) {
    if (!this.root.isConnected || isNotAnEvent(event)) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (key in KEYS) this.label(KEYS[key]);
    else if (key === "z") this.undo();
    else if (key === "j" || key === "k") this.move(key === "j" ? 1 : -1);
    else return;
    event.preventDefault();
  }

  get hits() { return [...document.querySelectorAll(".hit[data-id]")]; }
  get here() { return document.activeElement?.closest?.(".hit[data-id]"); }

  move(step) {
    const { hits, here } = this;
    const next = here ? hits[hits.indexOf(here) + step] : hits[0];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  }

  // Shows the buttons in a passage.
  offer(hit) {
    if (!this.root.isConnected || !this.data || !hit || hit.contains(this.buttons)) return;
    hit.append(this.buttons);
    this.paint();
  }

  label(name, hit = this.here) {
    if (!hit) { this.move(1); this.say("Focused the first passage: press the key again to label it"); return; }
    this.outbox.push({ kind: "label", question: this.data.question, batch: null, choices: [{ passage: hit.dataset.id, label: name }],
      milliseconds: null });
    this.say(`${name}: ${hit.querySelector(".title")?.textContent ?? hit.dataset.id}`);
    this.paint();
    this.move(1);
  }

  undo() {
    const last = this.live.at(-1);
    if (!last) { this.say("You have no label to undo on this question"); return; }
    this.outbox.push({ kind: "undo", question: last.question, batch: null, undoes: last.id, choices: [] });
    this.say(`Undone: ${last.choices?.[0]?.label ?? last.kind}`);
    this.paint();
  }

  say(words) { this.region.textContent = words; this.said = words; this.paintStatus(); }

  schedule() {
    if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.paint(); });
  }

  paint() {
    if (!this.data) return;
    const labels = this.labels();
    for (const hit of this.hits) {
      const label = labels.get(hit.dataset.id);
      const chip = hit.querySelector(".my-label");
      if (!label) { chip?.remove(); continue; }
      const words = `${SIGNS[label]} you: ${label}`;
      if (chip) { if (chip.textContent !== words) { chip.textContent = words; chip.className = `my-label badge ${label}`; } }
      else hit.querySelector(".badges")?.append(node("span", { class: `my-label badge ${label}` }, words));
    }
    const chosen = labels.get(this.buttons.closest(".hit[data-id]")?.dataset.id);
    for (const button of this.buttons.children) button.setAttribute("aria-pressed", String(button.dataset.label === chosen));
    this.paintStatus();
  }

  paintStatus() {
    if (!this.data) return;
    const count = this.outbox.entries.length;
    const words = this.said ?? "Click a passage to label it. Keys: J, K next and previous passage; 1 positive, 2 related, 3 negative, 0 unsure; Z undo.";
    if (this.words.textContent !== words) this.words.textContent = words;
    this.words.classList.toggle("keys-only", !this.said);
    this.tap.hidden = Boolean(this.said);
    const status = this.outbox.status(this.labels().size ? "✓ all saved" : "");
    if (this.status.textContent !== status) this.status.textContent = status;
    this.status.classList.toggle("unsaved", count > 0 || this.outbox.lost > 0);
    const refused = this.outbox.refused.at(-1);
    const banner = this.outbox.late ? `${this.data.trouble ?? "The server does not answer."} This browser keeps ${count} unsaved ${count === 1 ? "label" : "labels"} and resends ${count === 1 ? "it" : "them"}.`
      : refused ? `Not saved: ${refused.message}` : "";
    if (this.banner.textContent !== banner) this.banner.textContent = banner;
    this.banner.hidden = !banner;
  }
}

export default function ({ data, parentElement, setStateValue }) {
  let page = pages.get(data.session);
  if (!page) {
    page = new OnQuestion(data, parentElement);
    pages.set(data.session, page);
  }
  if (page.data && page.data.question !== data.question) page.said = undefined;
  page.mount(parentElement);
  page.outbox.deliver = (value) => setStateValue("outbox", value);
  page.receive(data);
  return () => { page.stop(); pages.delete(data.session); };
}
