// The judging page in the browser. The cursor, the visible labels and the outbox live here, so that a key press shows its effect
// at once. The server stores events, acknowledges them and assigns questions. Streamlit calls the default function at every rerun.

const LABELS = ["positive", "related", "negative", "unsure"];
const SIGNS = { positive: "✓", related: "~", negative: "✕", unsure: "?" };
const ACTIONS = {
  positive: ["1", "positive: it answers the question"],
  related: ["2", "related: on the topic, but does not answer it"],
  negative: ["3", "negative"],
  unsure: ["0", "unsure"],
  rest: ["x", "label the rest negative"],
  next: ["Enter", "next question"],
  undo: ["z", "undo (repeat to undo more)"],
  down: ["j", "next passage (also ↓)"],
  up: ["k", "previous passage (also ↑)"],
  expand: [" ", "expand or fold the passage"],
  positives: ["p", "expand or fold the known positives"],
  bad: ["b", "bad question: no passage could answer it as worded"],
  skip: ["s", "skip the question: it comes back at the end"],
  answers: ["a", "show your answers, to change one"],
  note: ["n", "write a note"],
  guidelines: ["g", "show the guidelines"],
  help: ["?", "show these keys"],
};
const BUTTONS = { next: "Next", undo: "Undo", skip: "Skip", rest: "Rest negative", note: "Note", bad: "Bad question",
  answers: "Your answers", guidelines: "Guidelines", help: "Keys" };
const ON_THE_BAR = new Set(["next", "undo", "skip", "rest"]); // the other buttons open with "More"; on a phone, "Rest negative" does too
const PHONE = window.matchMedia("(max-width: 640px)");               // as in judging.css
const taskOf = (card) => `Does ${card.candidates.length > 1 ? "each" : "this"} passage, read on its own${card.candidates.some((one) => one.title) ? " with its title" : ""}, answer the question?`;
const titled = (one) => (one.title ? [node("b", {}, one.title), " "] : []);
const MEANINGS = {
  positive: "It answers the question, and a reader would trust it without looking further.",
  related: "It is about the same thing, but the answer is not in it.",
  negative: "It does not help.",
  unsure: "You cannot decide after reading it twice. It will not be used for training.",
};
const HAS_JUDGED = "blindspot-how-to-seen";                  // the key's name in browsers of people who judged with older versions
const ALSO = { ArrowDown: "down", ArrowUp: "up" };
const NAMES = { " ": "Space", Enter: "Enter" };
const STREAMLITS = new Set(["c", "r", "Escape"]);           // keys reserved by Streamlit
const AHEAD_SECONDS = 20;                                    // fetch enough questions for the next 20 seconds
const MOST_AHEAD = 15;

const sessions = new Map();

function storedKeys() {
  try { return JSON.parse(localStorage.getItem("blindspot-keys") ?? "{}"); } catch { return {}; }
}

function remembered(flag) {
  try { return localStorage.getItem(flag) === "1"; } catch { return false; }
}

function remember(flag) {
  try { localStorage.setItem(flag, "1"); } catch { /* a browser that stores nothing shows the panel again */ }
}

class Judging {
  constructor(data, parent) {
    this.parent = parent;
    this.cards = new Map();
    this.order = [];
    this.done = new Set();                                   // finished in this browser, perhaps not yet acknowledged
    this.key = null;
    this.at = 0;
    this.folded = new Set();
    this.shownAt = performance.now();
    this.paces = [];
    this.message = "";
    this.settings = { on: true, keys: {}, ...storedKeys() };
    this.outbox = new Outbox(`blindspot-outbox:${data.session}`, () => this.paintStatus());
    this.opened = null;                                      // key of an answered question that the person went back to
    this.skips = [];                                         // skipped questions, each with the event before it, for undo
    this.listing = false;                                    // whether the list of answers is shown
    this.outbox.extra = () => ({ want: this.wanted(), open: this.opened, answers: this.listing });
    this.done = leaving(this.outbox.entries);
    this.place = `blindspot-place:${data.session}`;
    this.build();
    this.onKey = (event) => this.pressed(event);
    document.addEventListener("keydown", this.onKey);
  }

  stop() {
    document.removeEventListener("keydown", this.onKey);
    this.outbox.stop();
  }

  // ---- data from the server -------------------------------------------------------------------------------------------------

  receive(data) {
    const first = this.data === undefined;
    this.data = data;
    this.outbox.received(data.receipts, data.attempt, data.trouble);
    if (data.paused) { this.cards.clear(); this.key = null; }
    for (const card of data.cards) this.cards.set(card.key, card);
    this.order = data.order;
    // A question that was skipped once is handed out again at the end.
    const left = leaving(this.outbox.entries);
    for (const key of data.again ?? []) if (!left.has(key)) this.done.delete(key);
    if (this.listing && data.answers) this.paintAnswers(data.answers);
    if (first) this.comeBack();
    if (this.waitingFor && this.cards.has(this.waitingFor.key)) {
      const { key, passage } = this.waitingFor;
      this.waitingFor = null;
      this.show(key, passage);
    }
    if (!this.card || (this.done.has(this.key) && this.key !== this.opened && !this.waitingFor)) this.advance();
    this.paint();
  }

  // After a reload, return to the question that was on the page, if this person still has its lease.
  comeBack() {
    const count = this.outbox.restored;
    if (count) this.say(`Sending ${count} unsaved ${count === 1 ? "action" : "actions"} from before the page was reloaded`);
    let place = null;
    try { place = JSON.parse(localStorage.getItem(this.place)); } catch { /* start at the first question */ }
    this.skips = place?.skips ?? [];
    if (place && this.order.includes(place.key) && !this.done.has(place.key)) this.show(place.key, place.passage);
  }

  // The number of questions to fetch ahead, from the pace of the latest ones; at least four.
  wanted() {
    if (!this.paces.length) return 4;
    const sorted = [...this.paces].sort((a, b) => a - b);
    return Math.min(MOST_AHEAD, Math.max(4, Math.ceil(AHEAD_SECONDS / sorted[sorted.length >> 1])));
  }

  // ---- the current question -------------------------------------------------------------------------------------------------

  get card() { return this.cards.get(this.key); }
  get live() { return liveEvents(this.data.history, this.outbox.entries); }

  labels(card = this.card) {
    return labelsOf(card.question, card.batch, card.given, this.live, this.data.history, this.outbox.entries);
  }

  show(key, passage) {
    this.key = key;
    this.confirmed = null;
    this.folded.clear();
    const labels = this.labels();
    const named = this.card.candidates.findIndex((one) => one.passage === passage);
    const start = key === this.opened ? 0 : nextOpen(this.card.candidates, labels, 0);
    this.at = named >= 0 ? named : start;
    this.questionAt = this.shownAt = performance.now();
    this.keepPlace();
  }

  keepPlace() {
    const passage = this.card?.candidates[this.at]?.passage ?? null;
    try { localStorage.setItem(this.place, JSON.stringify({ key: this.key, passage, skips: this.skips })); } catch { /* the place is a convenience only */ }
  }

  advance() {
    const next = this.order.find((key) => !this.done.has(key) && this.cards.has(key));
    if (next) this.show(next);
    else { this.key = null; this.at = 0; }
  }

  // ---- events ---------------------------------------------------------------------------------------------------------------

  record(kind, choices = [], more = {}) {
    const card = this.card;
    remember(HAS_JUDGED);
    return this.outbox.push({
      kind, question: card.question, batch: card.batch, choices,
      milliseconds: Math.round(performance.now() - (choices.length > 1 ? this.questionAt : this.shownAt)), ...more,
    });
  }

  label(name) {
    const card = this.card;
    const place = this.at;
    const one = card?.candidates[place];
    if (!one) { this.say(card ? `All passages are judged. ${this.nameOfKey("next")}: next question` : "No question has arrived yet"); return; }
    this.record(this.data.kind, [{ passage: one.passage, label: name }]);
    this.confirmed = null;
    const labels = this.labels();
    this.at = this.key === this.opened ? Math.min(this.at + 1, card.candidates.length - 1) : nextOpen(card.candidates, labels, this.at + 1);
    this.shownAt = performance.now();
    this.announce(`${name}: ${one.title || `passage ${place + 1}`}. ${labels.size} of ${card.candidates.length} judged`);
  }

  rest() {
    const labels = this.labels();
    const open = this.card.candidates.filter((one) => !labels.has(one.passage));
    if (!open.length) { this.say(`All passages are judged. ${this.nameOfKey("next")}: next question`); return; }
    this.record(this.data.kind, open.map((one) => ({ passage: one.passage, label: "negative" })));
    this.at = this.card.candidates.length;
    this.confirmed = null;
    this.announce(`${open.length} negative. All ${this.card.candidates.length} judged`);
  }

  undo() {
    const last = this.live.at(-1);
    if (this.skips.length && this.skips.at(-1).after === (last?.id ?? null)) { this.takeUp(this.skips.pop()); return; }
    if (!last) { this.say("There is nothing to undo"); return; }
    this.outbox.push({ kind: "undo", question: last.question, batch: last.batch ?? null, undoes: last.id, choices: [] });
    const key = cardKey(last);
    this.done.delete(key);
    this.opened = null;
    const passage = last.choices?.[0]?.passage;
    if (this.cards.has(key)) this.show(key, passage);
    else this.waitingFor = { key, passage };
    const what = last.kind === "bad_question" ? "bad question" : last.kind === "note" ? "the note"
      : last.choices.length > 1 ? `${last.choices.length} labels` : last.choices[0].label;
    this.announce(`Undone: ${what}`);
    this.say(`Undone: ${what}`);
  }

  // Go back to a question that was skipped.
  takeUp(skipped) {
    if (this.data.mode === "judge") this.outbox.push({ kind: "reopen", question: skipped.question, batch: skipped.batch });
    const key = cardKey(skipped);
    this.done.delete(key);
    this.opened = null;
    if (this.cards.has(key)) this.show(key);
    else this.waitingFor = { key };
    this.announce("Undone: the skip");
    this.say("Undone: the skip");
  }

  // Show the person's finished questions. Changing a label there undoes nothing else.
  answers() {
    this.listing = true;
    this.paintedAnswers = null;
    this.parts.answers.replaceChildren(node("p", { class: "soft" }, "Loading …"));
    if (!this.parts.answers.open) this.parts.answers.showModal();
    this.outbox.send(true);
  }

  goBack(key) {
    this.opened = key;
    this.parts.answers.close();
    if (this.cards.has(key)) this.show(key);
    else this.waitingFor = { key };
    this.outbox.send(true);
    this.say(`Label a passage again to change it. ${this.nameOfKey("next")}: back to your open question`);
    this.paint();
  }

  notBad(event) {
    this.opened = null;
    this.outbox.push({ kind: "undo", question: this.card.question, batch: this.card.batch, undoes: event, choices: [] });
    this.done.delete(this.key);
    this.say(`No longer marked as bad. Label its passages, then ${this.nameOfKey("next")}`);
    this.parts.head.querySelector(".bad-mark")?.remove();
    this.paint();
  }

  next() {
    const card = this.card;
    if (this.key === this.opened) { this.leave(null); return; }
    const labels = this.labels();
    const open = card.candidates.filter((one) => !labels.has(one.passage)).length;
    if (!labels.size && this.data.mode === "judge") {
      const allNegative = card.candidates.length > 1 ? `${this.nameOfKey("rest")}: label all negative, or` : "Label it, or";
      this.say(`No passage is judged yet. ${allNegative} mark the question as bad, or skip it`);
      return;
    }
    if (open && this.confirmed !== this.key) {
      this.confirmed = this.key;
      this.say(`${open} not judged. ${this.nameOfKey("rest")}: label ${open === 1 ? "it" : "them"} negative. ${this.nameOfKey("next")} again: leave ${open === 1 ? "it" : "them"} unlabelled`);
      return;
    }
    this.leave("finish");
  }

  leave(kind) {
    const card = this.card;
    this.opened = null;
    if (kind === "skip") {
      this.skips = [...this.skips.slice(-20), { batch: card.batch, question: card.question, after: this.live.at(-1)?.id ?? null }];
    }
    if (kind && this.data.mode === "judge") this.outbox.push({ kind, question: card.question, batch: card.batch });
    this.paces = [...this.paces.slice(-8), (performance.now() - this.questionAt) / 1000];
    this.done.add(this.key);
    this.message = "";
    this.advance();
    this.announce(this.card ? `Next question: ${this.card.text}` : "No more questions");
    this.root.scrollIntoView?.({ block: "nearest" });
  }

  bad() {
    this.record("bad_question");
    this.leave("finish");
    this.say(`Marked as a bad question. ${this.nameOfKey("undo")}: undo`);
  }

  move(step) {
    this.at = Math.min(Math.max(this.at + step, 0), this.card.candidates.length - 1);
    this.shownAt = performance.now();
    this.keepPlace();
  }

  toggle(passage) {
    if (this.folded.has(passage)) this.folded.delete(passage); else this.folded.add(passage);
  }

  note() {
    const one = this.card.candidates[this.at];
    this.noteAbout = one?.passage ?? null;
    this.parts.noteAbout.textContent = one ? `about passage ${this.at + 1}${one.title ? `, ${one.title}` : ""}` : "about the question";
    this.parts.note.hidden = false;
    this.parts.noteText.value = "";
    this.parts.noteText.focus();
  }

  saveNote() {
    const text = this.parts.noteText.value.trim();
    this.closeNote();
    if (!text || !this.card) return;
    this.record("note", this.noteAbout ? [{ passage: this.noteAbout }] : [], { note: text, milliseconds: null });
    this.say("Note saved");
    this.paint();
  }

  closeNote() {
    this.parts.note.hidden = true;
    this.parts.noteText.blur();
  }

  act(action) {
    if (action === "help") { this.openHelp(); return; }
    if (action === "guidelines") { this.parts.guidelines.showModal(); return; }
    if (action === "answers") { if (this.data.mode === "judge") this.answers(); return; }
    this.message = "";
    if (action === "undo") this.undo();
    else if (!this.card) this.say(this.more ? "The next question is loading" : "There is nothing to judge");
    else if (LABELS.includes(action)) this.label(action);
    else if (action === "down") this.move(1);
    else if (action === "up") this.move(-1);
    else if (action === "expand") this.card.candidates[this.at] && this.toggle(this.card.candidates[this.at].passage);
    else if (action === "positives") this.parts.positives.toggleAttribute("open");
    else if (action === "bad" && this.data.mode !== "judge") this.say("You can mark bad questions only while judging");
    else if (action === "skip" && this.key === this.opened) this.leave(null);
    else if (action === "skip") this.leave("skip");
    else this[action]();
    this.keepPlace();
    this.paint();
  }

  // How a message names an action: by its key, or by its button where a phone shows no keys.
  nameOfKey(action) {
    if (!PHONE.matches) return nameOf(this.keyOf(action));
    return action === "rest" ? `More, ${BUTTONS.rest}` : BUTTONS[action];
  }

  keyOf(action) { return this.settings.keys[action] ?? ACTIONS[action][0]; }

  pressed(event) {
    if (!this.root.isConnected || !this.settings.on || isNotAnEvent(event)) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const action = Object.keys(ACTIONS).find((name) => this.keyOf(name) === key) ?? ALSO[key];
    if (!action) return;
    event.preventDefault();
    this.act(action);
  }

  // ---- display --------------------------------------------------------------------------------------------------------------

  say(message) { this.message = message; if (this.parts) this.parts.message.textContent = message; }
  announce(words) { this.parts.live.textContent = words; }

  get more() { return this.data.order.some((key) => !this.done.has(key)) || this.outbox.entries.length > 0; }

  build() {
    const button = (action, words) => node("button", { type: "button", "data-action": action, onclick: (event) => {
      if (event.detail) event.currentTarget.blur();          // after a click, keys act on the passages again
      this.act(action);
    } }, words, " ", node("kbd", {}, nameOf(this.keyOf(action))));
    this.parts = {
      progress: node("span", { class: "progress-words" }),
      number: node("span", { class: "passage-number" }),
      status: node("span", { class: "status", role: "status" }),
      banner: node("div", { class: "banner", role: "alert", hidden: true }),
      refused: node("div", { class: "banner refused", role: "alert", hidden: true }),
      head: node("div", { class: "judge-head" }),
      list: node("ol", { class: "candidates" }),
      message: node("div", { class: "judge-message", role: "status" }),
      live: node("div", { class: "unseen", "aria-live": "polite" }),
      note: node("form", { class: "note", hidden: true }),
      noteAbout: node("span", { class: "soft" }),
      noteText: node("input", { type: "text", maxlength: "2000", "aria-label": "Note", placeholder: "Enter saves the note, Esc discards it" }),
      help: node("dialog", { class: "judge-help", "aria-label": "Keys" }),
      guidelines: node("dialog", { class: "judge-guidelines", "aria-label": "Guidelines" }),
      answers: node("dialog", { class: "judge-answers", "aria-label": "Your answers", onclose: () => { this.listing = false; } }),
    };
    const { parts } = this;
    parts.note.append(node("label", {}, "Note "), parts.noteAbout, parts.noteText);
    parts.note.addEventListener("submit", (event) => { event.preventDefault(); this.saveNote(); });
    parts.noteText.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Escape") this.closeNote();
    });
    const thumb = LABELS.map((name) => node("button", { type: "button", class: `label thumb ${name}`, onclick: () => this.act(name) }, `${SIGNS[name]} ${name}`));
    const more = node("button", { type: "button", class: "more", "aria-expanded": "false", onclick: () => {
      more.setAttribute("aria-expanded", String(this.actions.classList.toggle("open")));
    } }, "More");
    const buttons = Object.entries(BUTTONS).map(([action, words]) => button(action, words));
    for (const each of buttons) if (!ON_THE_BAR.has(each.dataset.action)) each.classList.add("rare");
    const at = buttons.findIndex((each) => each.classList.contains("rare"));
    this.actions = node("div", { class: "judge-actions", role: "toolbar", "aria-label": "Actions" },
      ...thumb, ...buttons.slice(0, at), more, ...buttons.slice(at));
    this.root = node("section", { class: "judge", "aria-label": "Judging" },
      node("div", { class: "judge-bar" }, parts.progress, parts.number, parts.status), parts.banner, parts.refused, parts.head, parts.list,
      node("div", { class: "judge-foot" }, parts.message, parts.note, this.actions), parts.live, parts.help, parts.guidelines, parts.answers);
    this.mount(this.parent);
  }

  mount(parent) {
    this.parent = parent;
    const place = parent.querySelector("[data-judge]") ?? parent;
    if (this.root.parentNode !== place) place.replaceChildren(this.root);
  }

  paint() {
    this.paintStatus();
    const card = this.card;
    this.actions.hidden = !card;
    this.actions.querySelector("[data-action=answers]").hidden = this.data.mode !== "judge";
    this.actions.querySelector("[data-action=rest]").hidden = card?.candidates.length === 1;
    if (!card || card.key !== this.paintedKey) this.paintHead(card);
    this.paintList(card);
    this.parts.message.textContent = this.message;
    const guidelines = this.data.guideline_text ?? [];
    const version = this.data.guideline;
    if (this.paintedGuidelines !== version) this.paintGuidelines(guidelines, version);
  }

  paintStatus() {
    if (!this.data) return;
    const { outbox, parts } = this;
    const count = outbox.entries.length;
    parts.progress.textContent = this.card?.progress ?? this.data.progress ?? "";
    parts.number.textContent = this.passageNumber();
    parts.status.textContent = this.card || count || outbox.lost || this.data.history.length ? outbox.status() : "";
    parts.status.classList.toggle("unsaved", count > 0 || outbox.lost > 0);
    const trouble = count ? this.data.trouble : null;
    const lines = [];
    if (outbox.late) {
      lines.push(trouble ?? "The server does not answer.",
        `This browser keeps ${count} unsaved ${count === 1 ? "action" : "actions"} and resends ${count === 1 ? "it" : "them"} until the server answers. You can continue judging; do not clear the browser's data.`);
    }
    if (!outbox.kept) lines.push("This browser does not store data: closing the page loses unsaved labels.");
    if (parts.banner.textContent !== lines.join(" ")) parts.banner.textContent = lines.join(" ");
    parts.banner.hidden = !lines.length;
    if (outbox.refused.length !== this.paintedRefused) this.paintRefused();
  }

  // Which passage of the question is to be judged, as in "passage 2 of 5"; "" once all are.
  passageNumber() {
    const count = this.card?.candidates.length ?? 0;
    return this.at < count ? `passage ${this.at + 1} of ${count}` : "";
  }

  paintRefused() {
    const { refused } = this.outbox;
    this.paintedRefused = refused.length;
    this.parts.refused.hidden = !refused.length;
    const seen = refused.slice(-3).map((one) => node("div", {}, `Not saved (${describe(one.entry)}): ${one.message}`));
    const more = refused.length > 3 ? node("div", {}, `and ${refused.length - 3} more`) : "";
    this.parts.refused.replaceChildren(...seen, more, node("button", { type: "button", onclick: () => {
      refused.length = 0; this.paintRefused(); } }, "Dismiss"));
  }

  paintHead(card) {
    this.paintedKey = this.key;
    if (!card) { this.parts.head.replaceChildren(...this.nothing()); return; }
    const answers = card.answers.length
      ? [node("span", { class: "soft" }, card.answers.length === 1 ? "answer " : "answers "), ...card.answers.flatMap((one) => [node("mark", { class: "answer" }, one), " "]),
        card.more_answers ? node("span", { class: "soft", title: card.more_answers.join(" · "), tabindex: "0" }, `and ${card.more_answers.length} more`) : ""]
      : this.data.with_answers ? [node("span", { class: "soft" }, "No known answer: decide from the passage itself.")] : [];
    this.parts.positives = node("details", { class: "positives" },
      node("summary", {}, node("span", { class: "known" }, `★ ${card.positives.length} known positive${card.positives.length > 1 ? "s" : ""} `),
        ...(card.positives[0] ? [...titled(card.positives[0]), ...marked(card.positives[0].line)] : [])),
      ...card.positives.map((one) => node("p", {}, ...titled(one), ...marked(one.pieces))));
    this.parts.head.replaceChildren(
      card.notice ? node("div", { class: "notice-line" }, card.notice) : "", this.goneBack(),
      node("h1", {}, card.text), node("div", { class: "answers-line" }, ...answers),
      node("p", { class: "task" }, taskOf(card)),
      card.positives.length ? this.parts.positives : node("div", { class: "soft positives" }, "No known positives."));
  }

  // The line above a finished question that the person went back to.
  goneBack() {
    if (this.key !== this.opened) return "";
    const event = this.badMarks?.get(this.key);
    return node("div", { class: "notice-line bad-mark" }, event ? "You marked this question as bad. " : "You finished this question. Label a passage again to change it. ",
      event ? node("button", { type: "button", onclick: () => this.notBad(event) }, "It is not bad") : "", " ",
      node("button", { type: "button", onclick: () => this.act("next") }, "Back to the open question"));
  }

  paintAnswers(answers) {
    const painted = JSON.stringify(answers);
    if (painted === this.paintedAnswers) return;             // painting again would take the focus from a row
    this.paintedAnswers = painted;
    const rows = answers.map((one) => node("li", {}, node("button", { type: "button", onclick: () => this.goBack(one.key) },
      node("span", {}, one.text), node("span", { class: "soft" }, one.bad ? "bad question" : one.labels || "no label"))));
    this.parts.answers.replaceChildren(
      node("button", { type: "button", class: "close", onclick: () => this.parts.answers.close() }, "Close"), node("h2", {}, "Your answers"),
      node("p", { class: "soft" }, answers.length ? "The latest first. Open a question to change a label; the rest stays as it is."
        : "You have not finished a question of an open batch yet."), node("ol", {}, ...rows));
    this.badMarks = new Map(answers.filter((one) => one.bad).map((one) => [one.key, one.bad]));
  }

  // Until the person's first label, the labels' meanings stand beside their buttons; later they are the buttons' titles.
  get isNew() { return this.data.mode === "judge" && !this.data.history.length && !remembered(HAS_JUDGED); }

  nothing() {
    if (this.more) return [node("p", { class: "soft waiting" }, "The next question is loading …")];
    return [node("h1", {}, this.data.empty_title), ...this.data.empty.map((line) => node("p", {}, line)),
      this.data.answered ? node("p", {}, node("button", { type: "button", onclick: () => this.answers() }, "Your answers")) : ""];
  }

  paintList(card) {
    if (!card) { this.parts.list.replaceChildren(); return; }
    const labels = this.labels();
    const focused = document.activeElement?.closest?.(".candidate")?.dataset.passage;
    this.parts.list.replaceChildren(...card.candidates.map((one, place) => this.row(card, one, place, labels)));
    if (focused) this.parts.list.querySelector(`[data-passage="${CSS.escape(focused)}"] button`)?.focus({ preventScroll: true });
    const here = this.parts.list.querySelector(".candidate.here");
    const seat = `${this.key} ${this.at}`;
    if (here && seat !== this.seat) here.scrollIntoView({ block: "nearest" });
    this.seat = seat;
  }

  row(card, one, place, labels) {
    const label = labels.get(one.passage);
    const here = place === this.at;
    const open = here !== this.folded.has(one.passage);
    const say = (name) => (event) => {
      if (event.detail) event.currentTarget.blur();
      this.at = place;
      this.act(name);
    };
    const meaning = (name) => (this.isNew ? [node("span", { class: "meaning" }, node("b", { class: "thumb" }, `${name}: `), MEANINGS[name])] : []);
    const buttons = node("span", { class: `labels${this.isNew ? " explained" : ""}`, role: "group", "aria-label": `Label of passage ${place + 1}` },
      ...LABELS.flatMap((name) => [node("button", { type: "button", class: `label ${name}`, title: MEANINGS[name], "aria-pressed": String(label === name), onclick: say(name) },
        `${SIGNS[name]} ${name}`, " ", node("kbd", {}, nameOf(this.keyOf(name)))), ...meaning(name)]));
    const head = node("div", { class: "row-head" },
      node("span", { class: "place" }, `${place + 1}`),
      node("span", { class: `chip ${label ?? "none"}` }, label ? `${SIGNS[label]} ${label}` : "not judged"),
      one.title ? node("span", { class: "title" }, one.title) : "",
      one.group ? node("span", { class: "soft near" }, one.group) : "",
      one.others ? node("span", { class: "soft others" }, one.others) : "",
      label && one.where ? node("span", { class: "soft where" }, one.where) : "",
      open ? "" : node("span", { class: "line" }, ...marked(one.line)));
    return node("li", { class: `candidate${here ? " here" : ""}${label ? ` is-${label}` : ""}`, "data-passage": one.passage, "aria-current": here ? "true" : null,
      onclick: (event) => { if (!event.target.closest("button") && !getSelection().toString()) { this.at = place; this.keepPlace(); this.paint(); } } },
      head, open ? node("p", { class: "text" }, ...marked(one.pieces)) : "", open ? buttons : "");
  }

  paintGuidelines(text, version) {
    this.paintedGuidelines = version;
    const body = node("div", { class: "guidelines-text" }, ...text.map(element));
    this.parts.guidelines.replaceChildren(
      node("button", { type: "button", class: "close", onclick: () => this.parts.guidelines.close() }, "Close"), body,
      node("p", { class: "soft" }, `Guidelines version ${version}. Each label records the version.`));
  }

  openHelp() {
    const rows = Object.entries(ACTIONS).map(([action, [, what]]) => node("tr", {}, node("td", {}, what), node("td", {},
      node("button", { type: "button", "aria-label": `Change the key for ${what}`, onclick: (event) => this.remap(action, event.currentTarget) },
        node("kbd", {}, nameOf(this.keyOf(action)))))));
    const single = node("input", { type: "checkbox", onchange: (event) => { this.settings.on = event.currentTarget.checked; this.keepSettings(); } });
    single.checked = this.settings.on;
    this.parts.help.replaceChildren(
      node("button", { type: "button", class: "close", onclick: () => this.parts.help.close() }, "Close"), node("h2", {}, "Keys"),
      node("p", { class: "soft" }, "Click a key to change it. If no passage answers: X, Enter. If the first passage answers: 1, X, Enter."),
      node("table", {}, node("tbody", {}, ...rows)),
      node("label", {}, single, " use single-key shortcuts (off: buttons only)"),
      node("p", {}, node("button", { type: "button", onclick: () => { this.settings = { on: true, keys: {} }; this.keepSettings(); this.openHelp(); } }, "Reset to defaults")));
    if (!this.parts.help.open) this.parts.help.showModal();
  }

  remap(action, button) {
    button.replaceChildren("press a key …");
    const take = (event) => {
      event.preventDefault();
      event.stopPropagation();
      button.removeEventListener("keydown", take);
      const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
      const taken = Object.keys(ACTIONS).find((name) => name !== action && this.keyOf(name) === key);
      if (!STREAMLITS.has(key) && !["Tab", "Shift"].includes(event.key) && !taken) { this.settings.keys[action] = key; this.keepSettings(); }
      this.openHelp();
      const refusal = taken ? `This key is already used: ${ACTIONS[taken][1]}.` : STREAMLITS.has(key) ? "Streamlit reserves this key." : "";
      if (refusal) this.parts.help.append(node("p", { role: "alert" }, refusal));
    };
    button.addEventListener("keydown", take);
    button.focus();
  }

  keepSettings() {
    try { localStorage.setItem("blindspot-keys", JSON.stringify(this.settings)); } catch { /* the settings last as long as the page */ }
    for (const button of this.actions.querySelectorAll("[data-action]")) button.querySelector("kbd").textContent = nameOf(this.keyOf(button.dataset.action));
    this.paint();
  }
}

// The questions that waiting entries leave: finished or skipped, and not taken up again since.
function leaving(entries) {
  const left = new Set();
  for (const entry of entries) {
    if (["finish", "skip"].includes(entry.kind)) left.add(cardKey(entry));
    else if (["reopen", "undo"].includes(entry.kind)) left.delete(cardKey(entry));
  }
  return left;
}

function cardKey(one) { return `${one.batch ?? ""}\n${one.question}`; }
function nameOf(key) { return NAMES[key] ?? (key.length === 1 ? key.toUpperCase() : key); }

// The first passage without a label, searched from `from` and then from the top; the number of passages if all have a label.
function nextOpen(candidates, labels, from) {
  const later = candidates.findIndex((one, place) => place >= from && !labels.has(one.passage));
  const any = later >= 0 ? later : candidates.findIndex((one) => !labels.has(one.passage));
  return any >= 0 ? any : candidates.length;
}

function describe(entry) {
  return entry.choices?.length ? entry.choices.map((one) => one.label ?? "note").slice(0, 3).join(", ") : entry.kind.replace("_", " ");
}

// Create the DOM of a part of the guidelines: a string, or [tag, attributes, ...children].
function element(part) {
  return typeof part === "string" ? part : node(part[0], part[1], ...part.slice(2).map(element));
}

export default function ({ data, parentElement, setStateValue }) {
  let judging = sessions.get(data.session);
  if (!judging) {
    judging = new Judging(data, parentElement);
    sessions.set(data.session, judging);
  }
  judging.mount(parentElement);
  judging.outbox.deliver = (value) => setStateValue("outbox", value);
  judging.receive(data);
  return () => {
    judging.stop();
    sessions.delete(data.session);
  };
}
