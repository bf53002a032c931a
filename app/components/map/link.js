// Additions to Streamlit's plot. A click opens a point in every drag mode by changing the address, the open point gets a ring
// without a new plot, and names do not lie over each other. The customdata of a point is its id.

const RING = "#ea3a9c";
const state = { plot: null, timer: 0 };

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

function draw() {
  const { plot, canvas, places } = state;
  const layout = plot._fullLayout;
  const scale = window.devicePixelRatio || 1;
  canvas.width = layout.width * scale;
  canvas.height = layout.height * scale;
  canvas.style.width = `${layout.width}px`;
  canvas.style.height = `${layout.height}px`;
  const place = places.get(new URLSearchParams(location.search).get("point"));
  if (!place) return;
  const { xaxis, yaxis } = layout;
  const left = xaxis.d2p(place[0]), top = yaxis.d2p(place[1]);
  if (!(left >= 0 && left <= xaxis._length && top >= 0 && top <= yaxis._length)) return;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.strokeStyle = RING;
  pen.lineWidth = 3;
  pen.arc(xaxis._offset + left, yaxis._offset + top, 10, 0, 2 * Math.PI);
  pen.stroke();
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
  Plotly.update(plot, { "marker.size": sizes }, { "legend.font.size": 11 });
}

const LINE = 17, GAP = 3, SHIFTS = [0, 2 * LINE, -LINE, 3 * LINE];

// Names are in the order of their importance. One that would lie over an earlier one moves below or above, else is hidden.
function separate(plot) {
  const taken = [];
  const { left, right } = plot.getBoundingClientRect();
  for (const name of plot.querySelectorAll(".annotation")) {
    name.dataset.placed = "yes";
    name.style.transform = "";
    const box = name.getBoundingClientRect();
    const isFree = (shift) => taken.every((other) => (
      box.right + GAP < other.left || box.left > other.right + GAP || box.bottom + shift < other.top || box.top + shift > other.bottom
    ));
    const shift = box.left >= left && box.right <= right ? SHIFTS.find(isFree) : undefined;
    name.style.visibility = shift === undefined ? "hidden" : "visible";
    if (shift === undefined) continue;
    name.style.transform = `translateY(${shift}px)`;
    taken.push({ left: box.left, right: box.right, top: box.top + shift, bottom: box.bottom + shift });
  }
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
  plot.on("plotly_afterplot", draw);
  plot.on("plotly_afterplot", () => { fit(plot); separate(plot); });
  draw();
  fit(plot);
  separate(plot);
}

function look() {
  const plot = document.querySelector(".st-key-map-picture .js-plotly-plot");
  if (!plot?.on || !plot._fullData) return;
  if (!plot.dataset.linked) link(plot);
  if (plot.querySelector(".annotation:not([data-placed])")) separate(plot); // Plotly has written the names anew
}

export default function () {
  look();
  if (state.plot?.isConnected) draw();
  if (!state.timer) state.timer = setInterval(look, 300);
  return () => { clearInterval(state.timer); state.timer = 0; };
}
