// Additions to Streamlit's plot. A click opens a point in every drag mode by changing the address, the open point gets a ring
// and lines without a new plot, so do the questions of the group that the list points to, and names do not lie over each other.
// The customdata of a point is its id.

const RING = "#ea3a9c", POSITIVE = "#009e73";
const state = { plot: null, timer: 0, lines: {}, leaders: [], group: null };

function idOf(point) {
  const given = point.customdata ?? point.data?.customdata?.[point.pointNumber];
  return Array.isArray(given) ? given[0] : given;
}

function open(event) {
  const id = event?.points?.length ? idOf(event.points[0]) : null;
  if (!id) return;
  const target = new URL(location.href);
  if (target.searchParams.get("point") === id) return;
  target.searchParams.set("point", id);
  history.pushState({}, "", target);
  window.dispatchEvent(new PopStateEvent("popstate"));
}

// Returns a function from a place on the map to pixels of the plot.
function pixels({ xaxis, yaxis }) {
  return ([x, y]) => [xaxis._offset + xaxis.d2p(x), yaxis._offset + yaxis.d2p(y)];
}

function draw() {
  const { plot, canvas, places } = state;
  const layout = plot._fullLayout;
  const scale = window.devicePixelRatio || 1;
  canvas.width = layout.width * scale;
  canvas.height = layout.height * scale;
  canvas.style.width = `${layout.width}px`;
  canvas.style.height = `${layout.height}px`;
  const { xaxis, yaxis } = layout;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const pixel = pixels(layout);
  const isInside = ([x, y]) => x >= xaxis._offset && x <= xaxis._offset + xaxis._length && y >= yaxis._offset && y <= yaxis._offset + yaxis._length;
  const stroke = (from, to, width, dash) => {
    pen.beginPath();
    pen.lineWidth = width;
    pen.setLineDash(dash);
    pen.moveTo(...from);
    pen.lineTo(...to);
    pen.stroke();
  };
  pen.strokeStyle = getComputedStyle(plot).color;
  pen.globalAlpha = 0.7;
  for (const { from, to } of state.leaders) stroke(from, to, 1, []);
  const circle = (middle, radius, width) => {
    pen.beginPath();
    pen.lineWidth = width;
    pen.setLineDash([]);
    pen.arc(...middle, radius, 0, 2 * Math.PI);
    pen.stroke();
  };
  pen.strokeStyle = RING;
  for (const id of state.lines.groups?.[state.group] ?? []) {
    const middle = places.has(id) && pixel(places.get(id));
    if (middle && isInside(middle)) circle(middle, 6, 1.5);
  }
  pen.strokeStyle = getComputedStyle(plot).color;
  const place = places.get(new URLSearchParams(location.search).get("point"));
  if (!place || !isInside(pixel(place))) return;
  const to = (ids) => (ids ?? []).map((id, i) => [places.get(id), i + 1]).filter(([end]) => end).map(([end, rank]) => [pixel(end), rank]);
  const solid = to(state.lines.solid), dotted = to(state.lines.dotted), ink = pen.strokeStyle;
  for (const [end] of dotted) stroke(pixel(place), end, 1, [2, 3]);
  for (const [end] of solid) stroke(pixel(place), end, 1, []);
  pen.globalAlpha = 1;
  marks(pen, solid, dotted, ink, getComputedStyle(document.body).backgroundColor);
  pen.strokeStyle = RING;
  circle(pixel(place), 10, 3);
}

const SQUARE = 5, DISC = 8, STEPS = [[0, 0], ...[17, 34].flatMap((far) => [[far, 0], [-far, 0], [0, far], [0, -far], [far, far], [-far, -far]])];

// Squares where the solid lines end; discs with the ranks of the hits where the dotted ones do, beside each other.
function marks(pen, solid, dotted, ink, ground) {
  pen.setLineDash([]);
  const taken = solid.map(([end]) => end);
  for (const [x, y] of taken) {
    pen.fillStyle = POSITIVE;
    pen.fillRect(x - SQUARE, y - SQUARE, 2 * SQUARE, 2 * SQUARE);
  }
  pen.font = "600 11px sans-serif";
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  for (const [[x, y], rank] of dotted) {
    const isFree = ([px, py]) => taken.every(([ox, oy]) => Math.hypot(px - ox, py - oy) >= 2 * DISC);
    const middle = STEPS.map(([dx, dy]) => [x + dx, y + dy]).find(isFree) ?? [x, y];
    taken.push(middle);
    pen.fillStyle = ink;
    pen.beginPath();
    pen.arc(...middle, DISC, 0, 2 * Math.PI);
    pen.fill();
    pen.fillStyle = ground;
    pen.fillText(`${rank}`, middle[0], middle[1] + 0.5);
  }
}

const NARROW = 620, SMALLER = 0.6, fitted = new WeakSet();

// In a narrow window the points and the legend are smaller.
function fit(plot) {
  const { Plotly } = window;
  if (window.innerWidth > NARROW || !Plotly?.update || !plot.data.length || fitted.has(plot.data[0])) return;
  plot.data.forEach((trace) => fitted.add(trace));
  const sizes = plot.data.map((trace) => {
    const size = trace.marker?.size ?? 6;
    return typeof size === "number" ? SMALLER * size : Array.from(size, (each) => SMALLER * each); // of ringed points, one each
  });
  // The domains that a first, smaller size has left are given up.
  Plotly.update(plot, { "marker.size": sizes }, { "legend.font.size": 11, "xaxis.domain": [0, 1], "yaxis.domain": [0, 1] });
}

const GAP = 3, ON_PHONES = 4, NEAR = 7;
const DISTANCES = [16, 28, 42, 58, 76];
const SIDES = [[0, -1], [0, 1], [1, -0.6], [-1, -0.6], [1, 0.6], [-1, 0.6], [1, 0], [-1, 0]];

function nearest(box, [x, y]) {
  return [Math.min(Math.max(x, box.left), box.right), Math.min(Math.max(y, box.top), box.bottom)];
}

// Whether a line runs through a box, by ten places along it.
function crosses(from, to, box) {
  return Array.from({ length: 11 }, (_, i) => i / 10).some((part) => {
    const x = from[0] + part * (to[0] - from[0]), y = from[1] + part * (to[1] - from[1]);
    return x > box.left && x < box.right && y > box.top && y < box.bottom;
  });
}

// Each name, in the order of their importance, stands beside its place, where it covers the fewest questions, lies over no earlier
// name and crosses no line, with a line to its place; it is hidden where there is no room.
function separate(plot) {
  const taken = [], leaders = [], { yaxis } = plot._fullLayout;
  const frame = plot.getBoundingClientRect();
  const isOpen = state.places.has(new URLSearchParams(location.search).get("point")); // its lines and marks need the room
  const most = isOpen ? 0 : window.innerWidth > NARROW ? Infinity : ON_PHONES;
  const pixel = pixels(plot._fullLayout);
  const questions = [...state.places].filter(([id]) => id.startsWith("q:")).map(([, place]) => pixel(place));
  for (const name of plot.querySelectorAll(".annotation")) {
    name.dataset.placed = "yes";
    const { x, y, name: kind } = plot._fullLayout.annotations[name.dataset.index];
    if (kind !== "place") continue;
    name.style.transform = "";
    const { width, height, left, top } = name.getBoundingClientRect(), place = pixel([x, y]);
    const isIn = place[0] >= 0 && place[0] <= frame.width && place[1] >= yaxis._offset && place[1] <= yaxis._offset + yaxis._length;
    let best = null;
    for (const distance of isIn && taken.length < most ? DISTANCES : []) {
      for (const [across, down] of SIDES) {
        const middle = [place[0] + across * (width / 2 + distance * 0.7), place[1] + down * distance];
        const box = { left: middle[0] - width / 2, right: middle[0] + width / 2, top: middle[1] - height / 2, bottom: middle[1] + height / 2 };
        if (box.left < 0 || box.right > frame.width || box.top < yaxis._offset - NEAR || box.bottom > frame.height) continue;
        if (taken.some((other) => box.right + GAP > other.left && box.left < other.right + GAP && box.bottom > other.top && box.top < other.bottom)) continue;
        const end = nearest(box, place);
        if (taken.some((other) => crosses(place, end, other)) || leaders.some(({ from, to }) => crosses(from, to, box))) continue;
        const covered = questions.filter(([px, py]) => px > box.left && px < box.right && py > box.top && py < box.bottom).length;
        const cost = covered + distance / 5; // one question covered is worth 5 pixels
        if (!best || cost < best.cost) best = { cost, box };
      }
    }
    name.style.visibility = best ? "visible" : "hidden";
    if (!best) continue;
    const { box } = best;
    name.style.transform = `translate(${box.left - (left - frame.left)}px, ${box.top - (top - frame.top)}px)`;
    taken.push(box);
    const end = nearest(box, place);
    if (Math.hypot(end[0] - place[0], end[1] - place[1]) > NEAR) leaders.push({ from: place, to: end });
  }
  state.leaders = leaders;
}

function link(plot) {
  state.plot = plot;
  plot.on("plotly_click", open);
  plot.dataset.linked = "yes";
  state.places = new Map(plot._fullData.flatMap((trace) => (trace.customdata ?? []).map((id, i) => [id, [trace.x[i], trace.y[i]]])));
  state.canvas = document.createElement("canvas");
  Object.assign(state.canvas.style, { position: "absolute", left: "0", top: "0", pointerEvents: "none" });
  plot.querySelector(".svg-container").append(state.canvas);
  plot.on("plotly_relayout", draw);
  plot.on("plotly_relayouting", draw);
  // The next session draws its first picture at this height at once, see `figure.py`.
  const keep = () => { document.cookie = `blindspot-map-height=${plot._fullLayout.height}; path=/; SameSite=Strict; max-age=${30 * 86400}`; };
  const arrange = () => { fit(plot); separate(plot); draw(); keep(); };
  plot.on("plotly_afterplot", arrange);
  arrange();
}

function look() {
  const plot = document.querySelector(".st-key-map-picture .js-plotly-plot");
  if (!plot?.on || !plot._fullData) return;
  if (!plot.dataset.linked) link(plot);
  if (!plot.querySelector(".annotation:not([data-placed])")) return;
  separate(plot); // Plotly has written the names anew
  draw();
}

// Notes the group whose link in the list the pointer or the focus is on.
function point(event) {
  const row = event.type === "pointerout" ? null : event.target.closest?.(".misses tr")?.querySelector("a[href*='group=']");
  const group = row ? new URL(row.href, location.href).searchParams.get("group") : null;
  if (group === state.group) return;
  state.group = group;
  if (state.plot?.isConnected) draw();
}

const POINTING = ["pointerover", "pointerout", "focusin"];

export default function ({ data }) {
  state.lines = data ?? {};
  look();
  if (state.plot?.isConnected) { separate(state.plot); draw(); }
  if (!state.timer) state.timer = setInterval(look, 300);
  POINTING.forEach((each) => document.addEventListener(each, point)); // adding it again changes nothing
  return () => {
    clearInterval(state.timer);
    state.timer = 0;
    POINTING.forEach((each) => document.removeEventListener(each, point));
  };
}
