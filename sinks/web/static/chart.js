// Charts: each <figure data-chart> is drawn by uPlot from the tables in it, in the colours of the style sheet: what is drawn is
// what a reader finds in the tables, in the same words. Arrow keys, Home and End move along the points.
//
// The figure says what its axes are: data-x and data-y ("log" or "linear"), data-ticks-x and data-ticks-y, each a list of
// [value, label], data-label, the name of the chart, and data-diagonal where the line of equal values is drawn.
// Cells carry numbers as data attributes: x (and x2, the end of an interval), line, low, high, truth, other, bar, and dot with
// the ends of its own band, from and to. A row's data-kind is how its dot looks. data-upright anywhere in the figure is a
// vertical line at that x, data-label names it.
//
// A line over time brings its points as columns: data-columns, {start, step, low, mean, high, factor, unit} in ms and in the
// resource's own unit, with null for gaps; its tables then are a summary for readers. data-ends-x says from when until when,
// data-sync names charts whose cursors go along with one another, data-marks the id of what is marked in them: each element
// with data-mark ("alert" or "job"), data-from, data-to and data-label. data-title-x and data-title-y are titles of axes.
//
// The file stands alone, so that a report can hold it: no imports.

const ROLES = ["x", "x2", "line", "low", "high", "truth", "other", "dot", "from", "to", "bar"];
const DOTS = { observed: ["accent", 3.5], run: ["run", 2.6], limit: ["truth", 3.5], outside: ["warn-edge", 3.2], anomaly: ["bad", 5.5] };
const HOLLOW = new Set(["anomaly"]);
const RATIO = 0.56; // height to width
const HEIGHT_MIN = 210;
const HEIGHT_MAX = 460;
const TICK_ROOM = { x: 44, y: 22 }; // pixels between two ticks with words
const ALIGNED = 46; // pixels for the ticks of charts that stand above one another
const NEAR = 9; // pixels from a pointer to a dot

const charts = new Map(); // figure -> Chart

class Chart {
  constructor(figure) {
    this.figure = figure;
    this.box = made("div", "plot");
    this.box.tabIndex = 0;
    this.box.setAttribute("role", "application");
    this.box.setAttribute("aria-roledescription", "chart");
    this.readout = made("p", "readout");
    if (!figure.dataset.sync) this.readout.setAttribute("aria-live", "polite"); // else many would speak at once
    const caption = figure.querySelector("figcaption");
    if (caption) caption.after(this.box, this.readout);
    else figure.prepend(this.box, this.readout);
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("focus", () => this.readout.setAttribute("aria-live", "polite"));
    this.box.addEventListener("blur", () => this.leave());
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(figure);
    this.draw();
  }

  // Draws anew where the tables say something else than before.
  draw(always = false) {
    const found = read(this.figure);
    const source = JSON.stringify([found, { ...this.figure.dataset }]);
    if (source === this.source && !always) return;
    Object.assign(this, { source, found, place: -1 });
    this.box.setAttribute("aria-label", `${this.figure.dataset.label}. Arrow keys go along its ${found.points.length} points.`);
    this.plot?.destroy();
    this.plot = new uPlot(this.options(), this.data(), this.box);
    this.invite();
  }

  data() {
    const column = (role) => this.found.points.map((point) => point[role] ?? null);
    const across = this.found.points.map(({ x, x2 }) => (x2 === undefined ? x : (x + x2) / 2));
    return [across, ...["line", "low", "high", "truth", "other"].map(column)];
  }

  options() {
    const spanGaps = !this.figure.dataset.columns;
    const line = (stroke, more = {}) => ({ stroke, width: 2, spanGaps, points: { show: false }, ...more });
    const edge = line("transparent", { width: 0 });
    const dashed = (name) => line(colour(name), { width: 1.5, dash: [6, 5] });
    return {
      ...this.size(),
      padding: [10, this.figure.dataset.endsX ? 20 : 14, 0, 0],
      legend: { show: false },
      cursor: this.cursor(),
      scales: { x: this.scale("x"), y: this.scale("y") },
      axes: [this.axis("x"), this.axis("y")],
      series: [{}, line(colour("accent")), edge, edge, dashed("truth"), dashed("muted")],
      bands: [{ series: [3, 2], fill: colour("band") }],
      hooks: { draw: [painter(this.found, "diagonal" in this.figure.dataset)], setCursor: [(plot) => this.point(plot)] },
    };
  }

  cursor() {
    const { sync } = this.figure.dataset;
    const drag = { setScale: false, x: false, y: false };
    const points = { show: (_, place) => place === 1, size: 8 };
    return { drag, y: false, points, ...(sync && { sync: { key: sync, setSeries: false } }) };
  }

  scale(name) {
    const values = this.values(name).filter((value) => value > 0 || this.figure.dataset[name] !== "log");
    return { time: false, distr: this.figure.dataset[name] === "log" ? 3 : 1, range: () => this.range(name, values) };
  }

  values(name) {
    const roles = name === "x" ? ["x", "x2"] : ROLES.slice(2);
    const rows = [...this.found.points, ...this.found.dots];
    return rows.flatMap((row) => roles.map((role) => row[role])).filter((value) => value !== undefined);
  }

  range(name, values) {
    const ends = this.figure.dataset[name === "x" ? "endsX" : "endsY"];
    return ends ? JSON.parse(ends) : this.around(name, values);
  }

  around(name, values) {
    if (values.length === 0) return [1, 2];
    const isLog = this.figure.dataset[name] === "log";
    const ends = [Math.min(...values), Math.max(...values)].map((value) => (isLog ? Math.log(value) : value));
    if (!isLog && name === "y") ends[0] = Math.min(0, ends[0]);
    const air = (ends[1] - ends[0]) * 0.05 || Math.abs(ends[1]) * 0.1 || 0.5;
    const [low, high] = [!isLog && name === "y" && ends[0] === 0 ? 0 : ends[0] - air, ends[1] + air];
    return isLog ? [Math.exp(low), Math.exp(high)] : [low, high];
  }

  axis(name) {
    const ticks = new Map(JSON.parse(this.figure.dataset[name === "x" ? "ticksX" : "ticksY"] || "[]"));
    const longest = Math.max(2, ...[...ticks.values()].map((words) => words.length));
    const isUp = name === "y";
    const title = this.figure.dataset[isUp ? "titleY" : "titleX"];
    return {
      stroke: colour("muted"),
      font: "12px system-ui, sans-serif",
      grid: { stroke: colour("edge"), width: 1 },
      ticks: { show: false },
      gap: 6,
      size: isUp ? (this.figure.dataset.sync ? ALIGNED : 14 + 6.6 * longest) : 30,
      ...(title && { label: title, labelSize: 20, labelGap: 0, labelFont: "12px system-ui, sans-serif" }),
      splits: (plot) => thinned(plot, name, [...ticks.keys()], isUp ? TICK_ROOM.y : Math.max(TICK_ROOM.x, 8 * longest)),
      filter: (_, splits) => splits,
      values: (_, splits) => splits.map((value) => ticks.get(value) ?? ""),
    };
  }

  // Whether the cursors of other charts go along.
  get isJoined() {
    return "sync" in this.figure.dataset;
  }

  size() {
    const width = Math.max(200, Math.floor(this.box.clientWidth || this.figure.clientWidth));
    const ratio = Number(this.figure.dataset.ratio) || RATIO;
    return { width, height: Math.round(Math.min(HEIGHT_MAX, Math.max(HEIGHT_MIN, width * ratio))) };
  }

  resize() {
    const { width, height } = this.size();
    if (this.plot && (width !== this.plot.width || height !== this.plot.height)) this.plot.setSize({ width, height });
  }

  key(event) {
    const last = this.found.points.length - 1;
    const to = { ArrowRight: this.place + 1, ArrowLeft: this.place < 0 ? last : this.place - 1, Home: 0, End: last }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.go(Math.max(0, Math.min(last, to)));
  }

  go(place) {
    const [x, line] = this.plot.data.map((column) => column[place]);
    this.place = place;
    this.moving = true; // the pointer's way of telling is not for keys
    this.plot.setCursor({ left: this.plot.valToPos(x, "x"), top: line ? this.plot.valToPos(line, "y") : 0 }, true, this.isJoined);
    this.moving = false;
    this.readout.textContent = this.found.points[place].words;
  }

  // The pointer or a finger is over the chart: tell the dot that is near, else the point of the line.
  point(plot) {
    const { idx, left, top } = plot.cursor;
    if (this.moving) return;
    if (idx === null || idx === undefined || left < 0) {
      if (document.activeElement !== this.box) this.invite();
      return;
    }
    const near = (dot) => Math.hypot(plot.valToPos(dot.x, "x") - left, plot.valToPos(dot.dot, "y") - top);
    const dot = this.found.dots.reduce((best, each) => (!best || near(each) < near(best) ? each : best), null);
    this.readout.textContent = (dot && near(dot) < NEAR ? dot : this.found.points[idx])?.words ?? "";
  }

  leave() {
    this.place = -1;
    this.plot.setCursor({ left: -10, top: -10 }, true, this.isJoined);
    this.invite();
  }

  invite() {
    this.readout.textContent = "Use the arrow keys or a pointer to read the values.";
  }

  end() {
    this.observer.disconnect();
    this.plot?.destroy();
  }
}

function made(tag, name) {
  const element = document.createElement(tag);
  element.className = name;
  element.dataset.script = "chart";
  return element;
}

// Ticks that lie inside the scale, left out until each has room for its words.
function thinned(plot, name, ticks, room) {
  const { min, max } = plot.scales[name];
  const inside = ticks.filter((value) => value >= min && value <= max);
  for (let step = 1; step < inside.length; step += 1) {
    const kept = inside.filter((_, place) => place % step === 0);
    const places = kept.map((value) => plot.valToPos(value, name));
    if (places.every((at, place) => place === 0 || Math.abs(at - places[place - 1]) >= room)) return kept;
  }
  return inside.slice(0, 1);
}

function drawAll(always = false) {
  if (typeof uPlot === "undefined") return; // it did not load: the tables stay
  for (const [figure, chart] of charts) {
    if (figure.isConnected) continue;
    chart.end();
    charts.delete(figure);
  }
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    if (charts.has(figure)) charts.get(figure).draw(always);
    else if (figure.dataset.columns || figure.querySelector("tbody tr")) charts.set(figure, new Chart(figure));
  }
}

// Returns {points, dots, uprights}: points are the rows of the first table, by x; the cursor goes along them.
function read(figure) {
  const [first, ...others] = figure.dataset.columns ? [overTime(figure)] : [...figure.querySelectorAll("table")].map(rows);
  const points = (first || []).sort((a, b) => a.x - b.x);
  const uprights = [...figure.querySelectorAll("[data-upright]")].map(({ dataset }) => ({
    x: Number(dataset.upright),
    label: dataset.label || "",
  }));
  return { points, dots: [...points, ...others.flat()].filter((row) => row.dot !== undefined), uprights, marks: marks(figure) };
}

// Returns the points of a line over time, each at the middle of its interval.
function overTime(figure) {
  const { start, step, low, mean, high, factor, unit } = JSON.parse(figure.dataset.columns);
  const shown = (value) => `${Number((value / factor).toPrecision(3))} ${unit}`.trim();
  const clock = (ms) => new Date(ms).toISOString().slice(11, 16);
  const told = (at, from) =>
    mean[at] === null ? `${from}: nothing was measured` : `${from}: mean ${shown(mean[at])}, ${shown(low[at])} to ${shown(high[at])}`;
  return mean.map((value, at) => {
    const x = start + at * step;
    const found = { x, x2: x + step, kind: "", words: told(at, `${clock(x)} to ${clock(x + step)} UTC`) };
    return value === null ? found : { ...found, line: value, low: low[at], high: high[at] };
  });
}

function marks(figure) {
  const found = document.getElementById(figure.dataset.marks || "")?.querySelectorAll("[data-mark]") || [];
  return [...found].map(({ dataset }) => ({
    kind: dataset.mark,
    from: Number(dataset.from),
    to: Number(dataset.to),
    label: dataset.label || "",
  }));
}

function rows(table) {
  const heads = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
  return [...table.querySelectorAll("tbody tr")].map((row) => point(row, heads)).filter((row) => Number.isFinite(row.x));
}

function point(row, heads) {
  const found = { kind: row.dataset.kind || "", words: row.dataset.words || words(row, heads) };
  for (const cell of row.querySelectorAll("th, td"))
    for (const role of ROLES) if (role in cell.dataset && cell.dataset[role] !== "") found[role] = Number(cell.dataset[role]);
  return found;
}

function words(row, heads) {
  const parts = [...row.querySelectorAll("th, td")].map((cell, place) => [heads[place] || "", tidy(cell)]);
  return parts.filter(([, told]) => told && told !== "-").map(([head, told]) => `${head} ${told}`).join(", ");
}

function tidy(cell) {
  return cell.textContent.trim().replace(/\s+/g, " ");
}

// Returns a colour of the style sheet as it is now, light or dark.
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// Returns a function of uPlot's hook `draw` that paints what was read from the tables.
function painter(read, hasDiagonal) {
  return (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    if (hasDiagonal) diagonal(plot);
    bars(plot, read.points);
    for (const mark of read.marks) span(plot, mark);
    starts(plot, read.marks.filter(({ kind }) => kind === "alert"));
    uprights(plot, read.uprights);
    for (const dot of sorted(read.dots)) circle(plot, dot);
    ctx.restore();
  };
}

function sorted(dots) {
  const order = Object.keys(DOTS); // what stands out lies above
  return [...dots].sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
}

function pixel(plot, x, y) {
  return [plot.valToPos(x, "x", true), plot.valToPos(y, "y", true)];
}

function bars(plot, points) {
  const { ctx, bbox } = plot;
  ctx.fillStyle = colour("bar");
  for (const { x, x2, bar } of points) {
    if (bar === undefined) continue;
    const [left, top] = pixel(plot, x, bar);
    const right = plot.valToPos(x2, "x", true);
    const width = Math.max(right - left - devicePixelRatio, 2 * devicePixelRatio);
    ctx.fillRect(right > left ? left : left - width / 2, top, width, bbox.top + bbox.height - top);
  }
}

// A job is a bar along the bottom, an alert a shade over the whole height.
function span(plot, { kind, from, to }) {
  const { ctx, bbox } = plot;
  const [left, right] = [from, to].map((x) => Math.max(bbox.left, Math.min(bbox.left + bbox.width, plot.valToPos(x, "x", true))));
  const height = kind === "job" ? 5 * devicePixelRatio : bbox.height;
  ctx.globalAlpha = kind === "job" ? 1 : 0.16;
  ctx.fillStyle = colour(kind === "job" ? "run" : "bad-edge");
  const gap = kind === "job" ? devicePixelRatio : 0; // between two jobs
  ctx.fillRect(left, bbox.top + bbox.height - height, Math.max(right - left - gap, devicePixelRatio), height);
  ctx.globalAlpha = 1;
}

// When alerts began, each in words where there is room for them.
function starts(plot, alerts) {
  const left = plot.bbox.left;
  named(plot, alerts.map(({ from, label }) => ({ at: Math.max(plot.valToPos(from, "x", true), left), label })), "bad", []);
}

function uprights(plot, lines) {
  const dash = [2 * devicePixelRatio, 3 * devicePixelRatio];
  named(plot, lines.map(({ x, label }) => ({ at: plot.valToPos(x, "x", true), label })), "muted", dash);
}

// Lines over the whole height. The words of one stand beside it where they meet no other line and no other words; else the
// legend alone has them.
function named(plot, lines, name, dash) {
  const { ctx, bbox } = plot;
  const air = 5 * devicePixelRatio;
  ctx.fillStyle = colour(name);
  ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  const inOrder = [...lines].sort((a, b) => a.at - b.at);
  let free = bbox.left; // from here on nothing is written yet
  inOrder.forEach(({ at, label }, place) => {
    ctx.strokeStyle = colour(name);
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    const width = ctx.measureText(label).width + 2 * air;
    const next = inOrder[place + 1]?.at ?? bbox.left + bbox.width;
    const isRight = at + width <= next; // its words are on the right of it
    const isLeft = !isRight && at - width >= free;
    free = isRight ? at + width : at;
    if (!isRight && !isLeft) return;
    ctx.textAlign = isRight ? "left" : "right";
    ctx.setLineDash([]);
    ctx.strokeStyle = colour("card"); // a rim, so that words can be read where the curve passes behind them
    ctx.lineWidth = 4 * devicePixelRatio;
    ctx.strokeText(label, at + (isRight ? air : -air), bbox.top + 14 * devicePixelRatio);
    ctx.fillText(label, at + (isRight ? air : -air), bbox.top + 14 * devicePixelRatio);
  });
  ctx.setLineDash([]);
}

// Both axes have the same values along it.
function diagonal(plot) {
  const { ctx, scales } = plot;
  const ends = [Math.max(scales.x.min, scales.y.min), Math.min(scales.x.max, scales.y.max)];
  ctx.strokeStyle = colour("good");
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(...pixel(plot, ends[0], ends[0]));
  ctx.lineTo(...pixel(plot, ends[1], ends[1]));
  ctx.stroke();
  ctx.setLineDash([]);
}

function circle(plot, { x, dot, from, to, kind }) {
  const { ctx } = plot;
  const [name, radius] = DOTS[kind] || DOTS.observed;
  const [left, top] = pixel(plot, x, dot);
  if (from !== undefined && to !== undefined) {
    ctx.strokeStyle = colour(name);
    ctx.globalAlpha = 0.5;
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(...pixel(plot, x, from));
    ctx.lineTo(...pixel(plot, x, to));
    ctx.stroke();
    ctx.globalAlpha = 1;
  }
  ctx.beginPath();
  ctx.arc(left, top, radius * devicePixelRatio, 0, 2 * Math.PI);
  ctx.fillStyle = ctx.strokeStyle = colour(name);
  ctx.lineWidth = 2 * devicePixelRatio;
  if (HOLLOW.has(kind)) ctx.stroke();
  else ctx.fill();
}

document.addEventListener("scalewatch:exchanged", () => drawAll());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll(true));
drawAll();
