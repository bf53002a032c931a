// The pages' behaviour in the browser. Streamlit calls the default function at every rerun; the handlers are installed once and
// removed by the function that it returns.
//
// To follow a link with data-go, the script changes the address and sends the event that the browser sends for Back. Streamlit
// then reruns with the new address: one round trip, no page load, and Back and Forward work.

const session = { started: false, focus: null, frame: 0 };

function go(href) {
  const target = new URL(href, document.baseURI);
  if (target.origin !== location.origin) { location.assign(target); return; }
  const here = new URLSearchParams(location.search);
  const elsewhere = target.pathname !== location.pathname ||
    ["question", "ask"].some((key) => target.searchParams.get(key) !== here.get(key));
  if (target.href === location.href) return;
  history.replaceState({ ...history.state, scroll: main()?.scrollTop }, "");   // Back returns to this place
  session.row = target.hash.startsWith("#row-") ? target.hash.slice(1) : null;
  if (session.row) target.hash = "";
  history.pushState({}, "", target);
  window.dispatchEvent(new PopStateEvent("popstate"));
  if (elsewhere) session.toTop = true;
  if (target.hash) setTimeout(showPart, 200, target.hash.slice(1), Date.now() + 5000);
}

// A link to a part of a page shows the page with that part in view, once it is drawn.
function showPart(id, until) {
  if (document.querySelector(".stApp")?.dataset.testScriptState === "running" && Date.now() < until) {
    setTimeout(showPart, 100, id, until);
    return;
  }
  const part = document.getElementById(id), top = part?.getBoundingClientRect().top;
  if (part && (top < 0 || top > window.innerHeight * 0.6)) part.scrollIntoView({ block: "start" });
}

function main() {
  return document.querySelector("[data-testid=stMain]");
}

// Back and Forward: the page is drawn anew, so the place is taken up when the page is long enough again.
function onPop(event) {
  if (event.state?.scroll) session.scroll = { top: event.state.scroll, until: Date.now() + 5000 };
}

function typing(event) {
  const target = event.composedPath()[0];
  return target instanceof Element &&
    (target.isContentEditable || target.closest("input, textarea, select, [role=combobox], [role=listbox]"));
}

function onClick(event) {
  if (!(event.target instanceof Element)) return;
  const toggle = event.target.closest("[data-toggle]");
  if (toggle) { open(toggle.closest(".hit")); return; }
  const jump = event.target.closest("[data-jump]");
  if (jump) { event.preventDefault(); jumpTo(jump.dataset.jump); return; }
  if (sortable(event.target)) { sort(sortable(event.target)); return; }
  const anchor = event.target.closest("a[data-go]");
  if (!anchor || event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  session.focus = anchor.dataset.focus || null;
  go(anchor.href);
}

// A click on a head of a sortable table, or Enter on it, sorts the rows by that column: from the highest down first. A cell's
// `data-value` counts instead of its text.
function sort(head) {
  const table = head.closest("table"), falls = head.getAttribute("aria-sort") !== "descending";
  for (const each of table.tHead.rows[table.tHead.rows.length - 1].cells) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", falls ? "descending" : "ascending");
  const value = (row) => {
    const cell = row.cells[head.cellIndex], text = cell.dataset.value ?? (cell.querySelector(".figure")?.firstChild ?? cell).textContent;
    const number = parseFloat(text.replace(/[,<%]/g, "").replace("−", "-"));
    return Number.isNaN(number) ? text.trim() : number;
  };
  const sign = falls ? -1 : 1;
  const compare = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) * sign : typeof a === "number" ? -1 : 1);
  for (const body of table.querySelectorAll("tbody:not(.sums, .rule)")) {
    body.append(...[...body.rows].sort((a, b) => compare(value(a), value(b))));
  }
}

function sortable(target) {
  const head = target.closest("table.sortable thead tr:last-child th:not([data-unsorted])");
  return head && !target.closest("a") ? head : null;
}

function open(hit) {
  if (!hit) return;
  const isOpen = hit.classList.toggle("open");
  const button = hit.querySelector("[data-toggle]");
  button.setAttribute("aria-expanded", isOpen);
  button.textContent = isOpen ? "less" : "more";
  schedule();
}

function jumpTo(id) {
  const hit = document.getElementById(id);
  if (!hit) return;
  const tabs = hit.closest(".lists")?.querySelector(".list-tabs");
  if (tabs) tabs.open = hit.dataset.side === "b";          // a narrow window shows one list at a time
  hit.scrollIntoView({ block: "center", behavior: "smooth" });
  hit.focus({ preventScroll: true });
  hit.classList.remove("flash");
  void hit.offsetWidth;                                   // restarts the animation
  hit.classList.add("flash");
}

// n, p and the arrow keys move through the filtered list. The address holds the position and changes at once, so each of several
// quick presses moves on by one even before the server has answered the first.
function onKey(event) {
  if (event.key === "Escape" && event.target instanceof Element && event.target.closest(".st-key-question-tags")) event.target.blur();
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing(event)) return;
  if (session.opening) { event.preventDefault(); return; }
  if (event.key === "?" && !document.querySelector(".judge:not(.on-question)")) { event.preventDefault(); showKeys(); return; }
  const step = { n: 1, ArrowRight: 1, p: -1, ArrowLeft: -1 }[event.key];
  if (step) {
    const trail = document.querySelector("[data-trail]");
    if (!trail) return;
    const ids = JSON.parse(trail.dataset.trail);
    const at = ids.indexOf(new URLSearchParams(location.search).get("question") ?? trail.dataset.here);
    const next = ids[at + step];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    const target = new URL(location.href);
    target.searchParams.set("question", next);
    target.searchParams.delete("show");
    go(target.href);
    return;
  }
  const tags = event.key === "t" && document.querySelector(".st-key-question-tags [data-testid=stMultiSelect] input:enabled");
  if (tags) {
    event.preventDefault();
    const fold = tags.closest("details:not([open])");
    fold?.querySelector("summary").click();
    session.opening = Boolean(fold);                       // a field takes no keys while its expander opens: they are no commands
    setTimeout(() => { session.opening = false; tags.focus(); }, fold ? 600 : 0);
    return;
  }
  const anchor = document.querySelector(`a[data-key="${CSS.escape(event.key)}"]`);
  if (anchor && !event.repeat) { event.preventDefault(); anchor.click(); return; }
  if (event.key === "Enter" && event.target instanceof Element && event.target.matches(".hit")) open(event.target);
  if (event.key === "Enter" && event.target instanceof Element && sortable(event.target)) sort(sortable(event.target));
}

// The keys of this page, as it stands: those of its list, of its links, and of a focused passage. Judge has a list of its own.
function keysHere() {
  const keys = [["?", "show these keys"], ["Tab, Enter", "move to a link, follow it"]];
  if (document.querySelector("[data-trail]")) keys.push(["n or →", "next question of the list"], ["p or ←", "previous question of the list"]);
  for (const anchor of document.querySelectorAll("a[data-key]")) keys.push([anchor.dataset.key, anchor.textContent.trim()]);
  if (document.querySelector(".st-key-question-tags input:enabled")) keys.push(["t, Escape", "write a tag, leave the field"]);
  if (document.querySelector(".hit")) keys.push(["Enter", "open or fold the focused passage"]);
  if (document.querySelector(".on-question")) {
    keys.push(["j, k", "next, previous passage"], ["1, 2, 3, 0", "label it positive, related, negative, unsure"], ["z", "undo the last label"]);
  }
  return keys;
}

function showKeys() {
  document.querySelector("dialog.keys")?.remove();
  const dialog = document.createElement("dialog");
  dialog.className = "keys";
  dialog.setAttribute("aria-label", "Keys");
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "Close";
  close.addEventListener("click", () => dialog.close());
  const list = document.createElement("dl");
  for (const [key, words] of keysHere()) {
    const term = document.createElement("dt"), what = document.createElement("dd"), sign = document.createElement("kbd");
    sign.textContent = key;                                // text, never markup: links hold words of the study
    what.textContent = words;
    term.append(sign);
    list.append(term, what);
  }
  const head = document.createElement("h2");
  head.textContent = "Keys on this page";
  dialog.append(close, head, list);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

// Hovering over or focusing a passage highlights the same passage in the other list and the line between the two.
function onPoint(event) {
  const hit = event.target instanceof Element ? event.target.closest(".hit") : null;
  const passage = hit && hit.dataset.passage;
  if (passage === session.passage) return;
  session.passage = passage;
  for (const node of document.querySelectorAll(".hit.paired, .join.paired")) node.classList.remove("paired");
  if (!passage) return;
  const twins = document.querySelectorAll(`.hit[data-passage="${CSS.escape(passage)}"]`);
  if (twins.length < 2) return;
  for (const twin of twins) twin.classList.add("paired");
  for (const line of document.querySelectorAll(".join")) line.classList.toggle("paired", line.dataset.passage === passage);
}

function drawLines() {
  for (const lists of document.querySelectorAll(".lists")) {
    const gutter = lists.querySelector(".gutter");
    if (!gutter) continue;
    gutter.replaceChildren();
    const frame = gutter.getBoundingClientRect();
    if (frame.width < 20) continue;                       // the lists are stacked in one column: no lines
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("aria-hidden", "true");
    for (const left of lists.querySelectorAll(".hit[data-side=a]")) {
      const right = lists.querySelector(`.hit[data-side=b][data-passage="${CSS.escape(left.dataset.passage)}"]`);
      if (!right) continue;
      const path = document.createElementNS(svg.namespaceURI, "path");
      const [from, to] = [left, right].map((hit) => hit.getBoundingClientRect().top - frame.top + 19);
      path.setAttribute("d", `M0 ${from} C${frame.width * 0.55} ${from} ${frame.width * 0.45} ${to} ${frame.width} ${to}`);
      path.setAttribute("class", "join" + (left.classList.contains("answers") ? " answers" : ""));
      path.dataset.passage = left.dataset.passage;
      svg.append(path);
    }
    gutter.append(svg);
  }
}

// In a narrow window the menu scrolls sideways: show the current page in its middle.
function placeMenu() {
  const menu = document.querySelector(".top nav"), here = menu?.querySelector(".here");
  if (!here || menu.dataset.width === String(menu.clientWidth)) return;   // once for each width: people scroll it, too
  menu.dataset.width = menu.clientWidth;
  menu.scrollLeft = here.offsetLeft - menu.offsetLeft - (menu.clientWidth - here.offsetWidth) / 2;
}

function settle() {
  session.frame = 0;
  placeMenu();
  for (const head of document.querySelectorAll("table.sortable thead tr:last-child th:not([data-unsorted], [tabindex])")) {
    head.tabIndex = 0;
    head.title ||= "Sort by this column";
  }
  drawLines();
  listenToMap();
  if (session.toTop) {
    session.toTop = false;
    main()?.scrollTo({ top: 0 });
  }
  if (session.row && document.getElementById(session.row)) {
    const row = document.getElementById(session.row);
    session.row = null;
    row.scrollIntoView({ block: "center" });
    row.querySelector("a")?.focus({ preventScroll: true });
  }
  if (session.scroll && (main()?.scrollHeight ?? 0) - window.innerHeight >= session.scroll.top) {
    main().scrollTo({ top: session.scroll.top });
    session.scroll = null;
  } else if (session.scroll && Date.now() > session.scroll.until) session.scroll = null;
  // A rerun replaces the link that was followed; move the focus to its replacement.
  if (session.focus && document.activeElement === document.body) {
    document.querySelector(`a[data-focus="${CSS.escape(session.focus)}"]`)?.focus({ preventScroll: true });
  }
}

// A click on a point of the map opens it while the lasso is chosen too: Streamlit hears clicks in the other modes alone.
function listenToMap() {
  const plot = document.querySelector(".st-key-map-picture .js-plotly-plot:not([data-linked])");
  if (!plot?.on) return;
  plot.dataset.linked = "yes";
  plot.on("plotly_click", ({ points: [point] = [] }) => {
    const given = point?.customdata ?? point?.data.customdata?.[point.pointNumber];
    if (!given) return;
    const target = new URL(location.href);
    target.searchParams.set("point", Array.isArray(given) ? given[0] : given);
    go(target.href);
  });
}

function schedule() {
  if (!session.frame) session.frame = requestAnimationFrame(settle);
}

function ours(records) {
  return records.every((record) => record.target instanceof Element && record.target.closest(".gutter"));
}

function start() {
  const observer = new MutationObserver((records) => { if (!ours(records)) schedule(); });
  observer.observe(document.body, { childList: true, subtree: true });
  const resizing = new ResizeObserver(schedule);
  resizing.observe(document.body);
  const handlers = [[document, "click", onClick], [document, "keydown", onKey], [document, "mouseover", onPoint],
    [document, "focusin", onPoint], [window, "resize", schedule], [window, "popstate", onPop]];
  for (const [target, name, handler] of handlers) target.addEventListener(name, handler);
  session.stop = () => {
    observer.disconnect();
    resizing.disconnect();
    for (const [target, name, handler] of handlers) target.removeEventListener(name, handler);
    session.started = false;
    delete document.documentElement.dataset.blindspot;
  };
  session.started = true;
  document.documentElement.dataset.blindspot = "ready";     // before this, links are ordinary links and keys do nothing
}

// Store the name of the person in a cookie for the next visit (local app only). An empty value deletes
// the cookie. Signed-in sessions have a separate cookie, which the server sets and scripts cannot read.
function keep([name, value]) {
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `${name}=${value}; path=/; SameSite=Strict; max-age=${value ? 30 * 86400 : 0}${secure}`;
}

export default function ({ data }) {
  if (!session.started) start();
  if (data?.cookie) keep(data.cookie);
  schedule();
  return () => session.stop?.();
}
