// The page: asks the server for lines and maps, draws them, and probes what the pointer is over.

import { colour, scale, short } from "./colours.js";
import { Surface } from "./surface.js";

const get = (id) => document.getElementById(id);
const map = get("map"), bar = get("bar"), surface = new Surface(get("surface"), () => surface.draw());
const LEFT = 56, MARGINS = [LEFT + 12, 44];
let about, shown, playing = null, asking = false, again = false;
const at = {};

async function ask(what, query = {}) {
  const answer = await fetch(`${what}?${new URLSearchParams(query)}`);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

function fill(select, options) {
  for (const [value, text] of options) select.add(new Option(text, value));
  select.parentElement.hidden = options.length < 2;
}

const axes = () => JSON.parse(get("axes").value);
const wrong = () => ["error", "residual"].includes(get("layer").value);

/** Pairs of axes first, those of space before time; then single ones. */
function directions() {
  const all = about.axes.map((_, k) => k), found = [];
  for (const i of all) for (const j of all) if (i < j) found.push([i, j]);
  found.sort((a, b) => a.includes(about.time) - b.includes(about.time));
  found.push(...all.map((k) => [k]));
  return found.map((one) => [JSON.stringify(one), one.map((k) => about.axes[k]).join(" and ")]);
}

function sliders() {
  stop();
  get("sliders").replaceChildren();
  about.axes.forEach((name, k) => {
    if (axes().includes(k)) return;
    const [low, high] = about.bounds[k], label = document.createElement("label");
    const range = Object.assign(document.createElement("input"), { type: "range", min: low, max: high, step: (high - low) / 200, value: at[k], id: `at-${name}` });
    const text = document.createElement("output"), play = Object.assign(document.createElement("button"), { type: "button", textContent: "▶", title: `step through ${name}` });
    const tell = () => { text.textContent = `${name} = ${short(at[k])}`; };
    range.addEventListener("input", () => { at[k] = Number(range.value); tell(); update(); });
    play.addEventListener("click", () => {
      if (playing) return stop();
      play.textContent = "■";
      playing = { timer: setInterval(() => {
        if (asking) return;
        const next = at[k] + (high - low) / 60;
        range.value = at[k] = next > high ? low : next;
        tell();
        update();
      }, 80), play };
    });
    tell();
    label.append(text, range, play);
    get("sliders").append(label);
  });
}

function stop() {
  if (!playing) return;
  clearInterval(playing.timer);
  playing.play.textContent = "▶";
  playing = null;
}

/** Ask for what is chosen now; what is chosen meanwhile is asked for afterwards. */
async function update() {
  delete document.body.dataset.ready;
  if (asking) { again = true; return; }
  asking = true;
  try {
    do {
      again = false;
      const chosen = axes(), layer = get("layer").value;
      const found = await ask("drawn", { axes: JSON.stringify(chosen), at: JSON.stringify(at), field: get("field").value, layer });
      shown = { ...found, axes: chosen, scale: scale(found.range, wrong()) };
      draw();
    } while (again);
  } finally {
    asking = false;
  }
  document.body.dataset.ready = "yes";
}

/** Place and size of the picture inside its canvas, in pixels of the page. */
function frame() {
  const x = LEFT, y = 8, room = [map.clientWidth - MARGINS[0], map.clientHeight - MARGINS[1]];
  if (shown.axes.length === 1 || shown.axes.includes(about.time)) return { x, y, w: room[0], h: room[1] };
  const sides = shown.axes.map((k) => about.bounds[k][1] - about.bounds[k][0]);
  const unit = Math.min(room[0] / sides[0], room[1] / sides[1]);
  return { x, y, w: unit * sides[0], h: unit * sides[1] };
}

function fitted(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  if (pen) pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
}

function draw() {
  const raised = get("raised").checked && shown.axes.length === 2 && surface.gl;
  get("turn").hidden = shown.axes.length !== 2 || !surface.gl;
  get("surface").hidden = !raised;
  map.hidden = raised;
  bar.hidden = shown.axes.length === 1;
  const height = heightOf();
  if (raised) {
    fitted(surface.canvas, height);
    surface.fill(shown.values, shown.count, shown.scale, sidesOf());
    surface.draw();
  } else {
    const pen = fitted(map, height);
    (shown.axes.length === 2 ? drawMap : drawLine)(pen, frame());
  }
  if (!bar.hidden) drawBar();
}

/** As high as the width allows for a map in its own proportions, and as the window has room. */
function heightOf() {
  const room = Math.max(280, Math.min(window.innerHeight - 110, 640)), sides = sidesOf();
  const stage = get("stage").clientWidth - bar.clientWidth;
  if (shown.axes.length === 1) return Math.min(room, 0.7 * stage);
  return Math.min(room, (stage - MARGINS[0]) * sides[1] / sides[0] + MARGINS[1]);
}

function sidesOf() {
  if (shown.axes.includes(about.time)) return [1, 1];
  return shown.axes.map((k) => about.bounds[k][1] - about.bounds[k][0]);
}

function drawMap(pen, f) {
  const n = shown.count, picture = new ImageData(n, n);
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
    const v = shown.values[i * n + j];
    if (v === null) continue;
    picture.data.set([...colour(shown.scale.colours, shown.scale.part(v)), 255], 4 * ((n - 1 - j) * n + i));
  }
  const small = Object.assign(document.createElement("canvas"), { width: n, height: n });
  small.getContext("2d").putImageData(picture, 0, 0);
  pen.drawImage(small, f.x, f.y, f.w, f.h);
  if (get("cells").checked) {
    const inside = ([a, b, c, d]) => [...onPage(f, a, d), ...onPage(f, b, c)];
    pen.save();
    pen.beginPath();
    pen.rect(f.x, f.y, f.w, f.h);
    pen.clip();
    pen.strokeStyle = shown.scale.colours.length === 9 ? "rgba(255,255,255,0.7)" : "rgba(0,0,0,0.5)";
    for (const cell of shown.cells) {
      const [x, y, right, low] = inside(cell);
      pen.strokeRect(x, y, right - x, low - y);
    }
    pen.restore();
  }
  ticks(pen, f, about.bounds[shown.axes[0]], about.bounds[shown.axes[1]], about.axes[shown.axes[1]]);
}

function onPage(f, a, b) {
  const [[low, high], [down, up]] = shown.axes.map((k) => about.bounds[k]);
  return [f.x + (a - low) / (high - low) * f.w, f.y + (up - b) / (up - down) * f.h];
}

function drawLine(pen, f) {
  const n = shown.count, [low, high] = wrong() ? [0, 1] : shown.range, width = high - low || 1;
  const up = (v) => f.y + f.h * (1 - (wrong() ? shown.scale.part(v) : (v - low) / width));
  if (get("cells").checked) {
    const [from, to] = about.bounds[shown.axes[0]];
    pen.strokeStyle = "rgba(128,128,128,0.5)";
    for (const side of new Set(shown.cells.flat())) {
      const x = f.x + (side - from) / (to - from) * f.w;
      if (x < f.x || x > f.x + f.w) continue;
      pen.beginPath(); pen.moveTo(x, f.y); pen.lineTo(x, f.y + f.h); pen.stroke();
    }
  }
  pen.beginPath();
  pen.strokeStyle = "#0072B2";
  pen.lineWidth = 1.8;
  let down = false;
  shown.values.forEach((v, k) => {
    if (v === null) { down = false; return; }
    pen[down ? "lineTo" : "moveTo"](f.x + k / (n - 1) * f.w, up(v));
    down = true;
  });
  pen.stroke();
  pen.lineWidth = 1;
  const value = wrong() ? [0, 1].map((p) => shown.scale.value(p)) : [low, high];
  ticks(pen, f, about.bounds[shown.axes[0]], value, get("layer").value, wrong());
}

function ticks(pen, f, [left, right], [low, high], upwards, logarithmic = false) {
  const style = getComputedStyle(document.body);
  pen.fillStyle = pen.strokeStyle = style.color;
  pen.font = "12px system-ui, sans-serif";
  pen.strokeRect(f.x, f.y, f.w, f.h);
  pen.textAlign = "center";
  for (const p of [0, 0.25, 0.5, 0.75, 1]) {
    const along = short(left + p * (right - left)), up = logarithmic ? low * (high / low) ** p : low + p * (high - low);
    pen.textAlign = "center";
    pen.fillText(along, Math.min(f.x + p * f.w, map.clientWidth - 12), f.y + f.h + 15);
    pen.textAlign = "right";
    pen.fillText(short(up), f.x - 5, f.y + (1 - p) * f.h + 4);
  }
  pen.textAlign = "center";
  pen.fillText(about.axes[shown.axes[0]], f.x + f.w / 2, f.y + f.h + 31);
  pen.save();
  pen.translate(11, f.y + f.h / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(upwards, 0, 0);
  pen.restore();
}

function drawBar() {
  const height = Math.min(420, map.hidden ? surface.canvas.clientHeight : map.clientHeight), pen = fitted(bar, height);
  for (let y = 0; y < height - 20; y++) {
    pen.fillStyle = `rgb(${colour(shown.scale.colours, 1 - y / (height - 21))})`;
    pen.fillRect(0, y + 10, 18, 1.5);
  }
  pen.fillStyle = getComputedStyle(document.body).color;
  pen.font = "12px system-ui, sans-serif";
  for (const p of [0, 0.25, 0.5, 0.75, 1]) pen.fillText(short(shown.scale.value(p)), 24, 10 + (1 - p) * (height - 21) + 4);
}

let waiting = false;

async function probe(event) {
  const f = frame(), box = map.getBoundingClientRect();
  const across = (event.clientX - box.left - f.x) / f.w, up = 1 - (event.clientY - box.top - f.y) / f.h;
  if (waiting || across < 0 || across > 1 || up < 0 || up > 1) return;
  const point = about.axes.map((_, k) => at[k]), parts = [across, up];
  shown.axes.forEach((k, number) => {
    const [low, high] = about.bounds[k];
    point[k] = low + parts[number] * (high - low);
  });
  waiting = true;
  try {
    const found = await ask("probed", { point: JSON.stringify(point) });
    const where = about.axes.map((name, k) => `${name} = ${short(point[k])}`).join(", ");
    const what = Object.entries(found).map(([name, v]) => `${name} = ${v.toPrecision(8)}`).join(" · ");
    get("probe").textContent = `${where} · ${what || "outside"}`;
  } finally {
    waiting = false;
  }
}

async function start() {
  about = await ask("about");
  document.title = `${about.title} · tessella`;
  get("title").textContent = about.title;
  get("report").textContent = about.report;
  about.bounds.forEach(([low, high], k) => { at[k] = k === about.time ? low : (low + high) / 2; });
  fill(get("field"), about.unknowns.map((name) => [name, name]));
  fill(get("layer"), about.layers.map((name) => [name, name]));
  fill(get("axes"), directions());
  get("axes").addEventListener("change", () => { sliders(); update(); });
  for (const id of ["field", "layer"]) get(id).addEventListener("change", update);
  for (const id of ["cells", "raised"]) get(id).addEventListener("change", draw);
  map.addEventListener("pointermove", probe);
  window.addEventListener("resize", draw);
  sliders();
  await update();
}

start();
