// The outbox: events that the server has not yet acknowledged. Each event gets its id here, and every message contains the whole
// outbox, so lost, merged or repeated messages do no harm. Events stay in localStorage until the server acknowledges them, so a
// reload, a crash or an unreachable server loses no label.

const RETRY_MS = 2000;          // resend events that are unacknowledged for this long
const LATE_MS = 5000;           // show a banner when events are unacknowledged for this long
const TICK_MS = 500;

function newId() {              // randomUUID is absent over plain http on a LAN
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// Whether a localStorage key is an outbox of this place: the place, an optional page mode, and the outbox's id.
// A prefix test would not be enough: the rest could belong to another person's name.
function isOutboxOf(place, key) {
  return key.startsWith(`${place}:`) && /^((adjudicate|question):)?[0-9a-f]{32}$/.test(key.slice(place.length + 1));
}

class Outbox {
  // place: prefix of one person's localStorage keys in one study. changed: called when the status may have changed.
  constructor(place, changed) {
    this.place = place;
    this.key = `${place}:${newId()}`;
    this.changed = changed;
    this.deliver = null;                        // set at every rerun of the component
    this.extra = () => ({});
    this.attempt = Date.now();                  // increases across reloads too
    this.sentAt = null;
    this.waitingSince = null;
    this.kept = true;
    this.refused = [];                          // shown until the person dismisses them
    this.lost = 0;                              // number of refused events, which the store does not have
    this.entries = this.adopt();
    this.restored = this.entries.length;
    if (this.entries.length) { this.waitingSince = performance.now(); this.store(); }
    this.timer = setInterval(() => this.tick(), TICK_MS);
    this.warn = (event) => { if (this.entries.length) { event.preventDefault(); event.returnValue = ""; } };
    window.addEventListener("beforeunload", this.warn);
  }

  stop() {
    clearInterval(this.timer);
    window.removeEventListener("beforeunload", this.warn);
  }

  // Events of this person's other pages. Such a page may still be open and send the same events; the server stores each id once.
  adopt() {
    const found = new Map();
    for (const key of this.keys()) {
      for (const entry of this.read(key)) if (entry && typeof entry.id === "string") found.set(entry.id, entry);
    }
    return [...found.values()];
  }

  keys() {
    try {
      return Object.keys(localStorage).filter((key) => isOutboxOf(this.place, key)).sort();
    } catch { return []; }
  }

  read(key) {
    try {
      const value = JSON.parse(localStorage.getItem(key) ?? "[]");
      return Array.isArray(value) ? value : [];
    } catch { return []; }
  }

  store() {
    try {
      if (this.entries.length) localStorage.setItem(this.key, JSON.stringify(this.entries));
      else localStorage.removeItem(this.key);
      this.kept = true;
    } catch { this.kept = false; }
  }

  push(entry) {
    const made = { id: newId(), client_time: Date.now() / 1000, ...entry };
    this.entries = [...this.entries, made];
    this.waitingSince ??= performance.now();
    this.store();
    this.send();
    return made;
  }

  // One message at a time: later events go with the next message. An empty message asks for more questions.
  send(force = false) {
    if (!this.deliver || (this.sentAt !== null && !force)) return;
    this.attempt += 1;
    this.sentAt = performance.now();
    this.deliver({ attempt: this.attempt, entries: this.entries, ...this.extra() });
  }

  tick() {
    const waited = this.sentAt === null ? Infinity : performance.now() - this.sentAt;
    if (this.entries.length && waited > RETRY_MS) this.send(true);
    else if (this.sentAt !== null && waited > RETRY_MS) this.sentAt = null;
    this.changed();
  }

  // receipts: [{id, state: "stored" | "known" | "refused", message}]; attempt: the last message that the server processed;
  // trouble: why the server could store nothing, in which case the same events are sent again later.
  received(receipts, attempt, trouble) {
    const acknowledged = new Map((receipts ?? []).map((receipt) => [receipt.id, receipt]));
    const before = this.entries.length;
    for (const entry of this.entries) {
      const receipt = acknowledged.get(entry.id);
      const follows = this.refused.some((one) => one.entry.id === entry.undoes);
      if (receipt?.state === "refused") this.lost += 1;
      if (receipt?.state === "refused" && !follows) this.refused.push({ entry, message: receipt.message });
    }
    this.entries = this.entries.filter((entry) => !acknowledged.has(entry.id));
    if (this.entries.length < before) {
      this.waitingSince = this.entries.length ? performance.now() : null;
      this.store();
      this.forgetElsewhere(acknowledged);
    }
    if (attempt === this.attempt && !trouble) this.sentAt = null;
    if (this.entries.length && this.sentAt === null) this.send();
  }

  forgetElsewhere(acknowledged) {
    for (const key of this.keys()) {
      if (key === this.key) continue;
      const rest = this.read(key).filter((entry) => !acknowledged.has(entry?.id));
      try {
        if (rest.length) localStorage.setItem(key, JSON.stringify(rest));
        else localStorage.removeItem(key);
      } catch { /* the key is read again at the next load */ }
    }
  }

  // The status line: "all saved" only if nothing is waiting and nothing was refused.
  status(quiet = "✓ all saved") {
    const refused = this.lost ? `${this.lost} not saved (refused)` : "";
    const unsaved = this.entries.length ? `${this.entries.length} unsaved` : "";
    return [unsaved, refused].filter(Boolean).join(", ") || quiet;
  }

  get late() {
    return this.waitingSince !== null && performance.now() - this.waitingSince > LATE_MS;
  }
}

// The events in force: those that the server knows (oldest first) and those in the outbox, without the undone ones.
function liveEvents(history, entries) {
  const undone = new Set(entries.filter((entry) => entry.kind === "undo").map((entry) => entry.undoes));
  const known = new Set(history.map((event) => event.id));
  const fresh = entries.filter((entry) => ["label", "adjudicate", "bad_question", "note"].includes(entry.kind) && !known.has(entry.id));
  return [...history, ...fresh].filter((event) => !undone.has(event.id));
}

// The labels of one question: the server's labels, without those being undone, and the labels set since.
function labelsOf(question, batch, given, live, history, entries) {
  const undone = new Set(entries.filter((entry) => entry.kind === "undo").map((entry) => entry.undoes));
  const stale = new Set(history.filter((event) => undone.has(event.id)).flatMap((event) => event.choices.map((one) => one.passage)));
  const labels = new Map(Object.entries(given ?? {}).filter(([passage]) => !stale.has(passage)));
  for (const event of live) {
    if (event.question !== question || (event.batch ?? null) !== (batch ?? null)) continue;
    for (const one of event.choices ?? []) if (one.label) labels.set(one.passage, one.label);
  }
  return labels;
}

// Keys typed into a field, held down, or meant for a focused control are not label events.
function isNotAnEvent(event) {
  if (event.defaultPrevented || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return true;
  const target = event.composedPath()[0];
  if (!(target instanceof Element)) return false;
  // A dialog that has just closed keeps the focus until the browser draws the page again.
  if (target.closest("dialog:not([open])")) return false;
  if (target.isContentEditable || target.closest("input, textarea, select, dialog, [role=combobox], [role=listbox]")) return true;
  return (event.key === "Enter" || event.key === " ") && Boolean(target.closest("a, button, summary"));
}

// Create a DOM node; strings become text nodes, never HTML.
function node(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

// pieces: [[text, "" | "answer" | "word"], ...]
function marked(pieces) {
  return pieces.map(([text, kind]) => (kind ? node("mark", { class: kind }, text) : text));
}
