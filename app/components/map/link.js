// Additions to Streamlit's plot. A click opens a point in every drag mode by changing the address, and the open point gets a ring
// without a new plot. With two maps side by side, points hovered over or selected in one map get a ring in the other. The
// customdata of a point is its id.

const RING = "#e0218a";
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

// In a narrow window two maps stand below each other. The page draws them, so the address tells it.
function stack(plot) {
  const target = new URL(location.href);
  const narrow = window.innerWidth < 620 && Boolean(plot._fullLayout.xaxis2);
  if (narrow === target.searchParams.has("stacked")) return;
  if (narrow) target.searchParams.set("stacked", "1"); else target.searchParams.delete("stacked");
  history.replaceState({}, "", target);
  window.dispatchEvent(new PopStateEvent("popstate"));
}

// Map from id to [axis number, x, y] for each position of the point.
function places(plot) {
  const found = new Map();
  for (const trace of plot._fullData) {
    if (!trace.customdata || !trace.x) continue;
    const axis = trace.xaxis === "x2" ? 2 : 1;
    for (let i = 0; i < trace.x.length; i++) {
      const id = trace.customdata[i];
      if (!found.has(id)) found.set(id, []);
      found.get(id).push([axis, trace.x[i], trace.y[i]]);
    }
  }
  return found;
}

function draw() {
  const { plot, canvas, index } = state;
  const layout = plot._fullLayout;
  const scale = window.devicePixelRatio || 1;
  canvas.width = layout.width * scale;
  canvas.height = layout.height * scale;
  canvas.style.width = `${layout.width}px`;
  canvas.style.height = `${layout.height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.strokeStyle = RING;
  const ring = (id, from, radius, width) => {
    for (const [axis, x, y] of index.get(id) ?? []) {
      if (axis === from) continue;
      const across = layout[axis === 2 ? "xaxis2" : "xaxis"], up = layout[axis === 2 ? "yaxis2" : "yaxis"];
      const left = across.d2p(x), top = up.d2p(y);
      if (!(left >= 0 && left <= across._length && top >= 0 && top <= up._length)) continue;
      pen.lineWidth = width;
      pen.beginPath();
      pen.arc(across._offset + left, up._offset + top, radius, 0, 2 * Math.PI);
      pen.stroke();
    }
  };
  for (const id of state.chosen.ids) ring(id, state.chosen.from, 3.5, 1.2);
  if (state.pointed) ring(state.pointed.id, state.pointed.from, 9, 2.5);
  const opened = new URLSearchParams(location.search).get("point");
  if (opened) ring(opened, 0, 10, 3);
}

function axisOf(point) {
  return point.xaxis?._id === "x2" || point.data?.xaxis === "x2" ? 2 : 1;
}

function link(plot) {
  state.plot = plot;
  plot.on("plotly_click", open);
  stack(plot);
  plot.dataset.linked = "yes";
  state.chosen = { ids: [], from: 0 };
  state.pointed = null;
  state.index = places(plot);
  state.canvas = document.createElement("canvas");
  Object.assign(state.canvas.style, { position: "absolute", left: "0", top: "0", pointerEvents: "none" });
  state.canvas.className = "twins";
  plot.querySelector(".svg-container").append(state.canvas);
  plot.on("plotly_relayout", draw);
  plot.on("plotly_relayouting", draw);
  plot.on("plotly_afterplot", draw);
  draw();
  if (!plot._fullLayout.xaxis2) return;
  plot.on("plotly_hover", (event) => { state.pointed = { id: idOf(event.points[0]), from: axisOf(event.points[0]) }; draw(); });
  plot.on("plotly_unhover", () => { state.pointed = null; draw(); });
  plot.on("plotly_selected", (event) => {
    const points = event?.points ?? [];
    state.chosen = { ids: points.map(idOf), from: points.length ? axisOf(points[0]) : 0 };
    state.canvas.dataset.chosen = String(state.chosen.ids.length);
    draw();
  });
  plot.on("plotly_deselect", () => { state.chosen = { ids: [], from: 0 }; draw(); });
}

function look() {
  const plot = document.querySelector(".st-key-map-picture .js-plotly-plot");
  if (plot && !plot.dataset.linked && plot.on && plot._fullData) link(plot);
}

export default function () {
  look();
  if (state.plot?.isConnected) draw();
  if (!state.timer) state.timer = setInterval(look, 300);
  return () => { clearInterval(state.timer); state.timer = 0; };
}
