// Additions to Streamlit's plot. A click opens a point in every drag mode by changing the address, and the open point gets a ring
// without a new plot. The customdata of a point is its id.

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

const NARROW = 620, SMALLER = 0.6, RINGS = 0.85, fitted = new WeakSet();

// In a narrow window the points and the legend are smaller, and names but the first are numbers.
function fit(plot) {
  const { Plotly } = window;
  if (window.innerWidth > NARROW || !Plotly?.update || !plot.data.length || fitted.has(plot.data[0])) return;
  plot.data.forEach((trace) => fitted.add(trace));
  const sizes = plot.data.map((trace) => {
    const size = trace.marker?.size ?? 6, scale = trace.customdata ? SMALLER : RINGS;
    return typeof size === "number" ? scale * size : Array.from(size, (each) => scale * each); // of marked points, one each
  });
  const names = plot.data.map((trace) => trace.meta ?? trace.name ?? "");
  const annotations = (plot.layout.annotations ?? []).map((each, i) => (i ? { ...each, text: /^\d*/.exec(each.text)[0] || " " } : each));
  Plotly.update(plot, { "marker.size": sizes, name: names }, { "legend.font.size": 11, annotations });
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
  plot.on("plotly_afterplot", () => fit(plot));
  draw();
  fit(plot);
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
