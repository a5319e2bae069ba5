// Charts: each <figure data-chart> is drawn by uPlot from the table in it. Arrow keys, Home and End move along its points, and
// what lies there is said in words. Without script a picture made by the agent stands in its place.
//
// The figure says what its axes are: data-x and data-y ("log" or "linear"), data-ticks-x and data-ticks-y, each a list of
// [value, words], and data-label, the name of the chart.

import { colour, painter } from "./paint.js";
import { read } from "./table.js";

const RATIO = 0.56; // height to width
const HEIGHT_MIN = 210;
const HEIGHT_MAX = 460;
const TICK_ROOM = { x: 44, y: 22 }; // pixels between two ticks with words
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
    this.readout.setAttribute("aria-live", "polite");
    figure.prepend(this.box, this.readout);
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("blur", () => this.leave());
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(figure);
    this.draw();
  }

  // Draws anew where the tables say something else than before.
  draw(always = false) {
    const found = read(this.figure);
    const told = JSON.stringify([found, { ...this.figure.dataset }]);
    if (told === this.told && !always) return;
    Object.assign(this, { told, found, place: -1 });
    this.box.setAttribute("aria-label", `${this.figure.dataset.label}. Arrow keys go along its ${found.points.length} points.`);
    this.plot?.destroy();
    this.plot = new uPlot(this.options(), this.data(), this.box);
    this.invite();
  }

  data() {
    const column = (role) => this.found.points.map((point) => point[role] ?? null);
    const across = this.found.points.map(({ x, x2 }) => (x2 === undefined ? x : (x + x2) / 2));
    return [across, column("line"), column("low"), column("high"), column("truth")];
  }

  options() {
    const line = (stroke, more = {}) => ({ stroke, width: 2, spanGaps: true, points: { show: false }, ...more });
    const edge = line("transparent", { width: 0 });
    return {
      ...this.size(),
      padding: [10, 14, 0, 0],
      legend: { show: false },
      cursor: { drag: { setScale: false, x: false, y: false }, y: false, points: { show: (_, place) => place === 1, size: 8 } },
      scales: { x: this.scale("x"), y: this.scale("y") },
      axes: [this.axis("x"), this.axis("y")],
      series: [{}, line(colour("accent")), edge, edge, line(colour("truth"), { width: 1.5, dash: [6, 5] })],
      bands: [{ series: [3, 2], fill: colour("band") }],
      hooks: { draw: [painter(this.found)], setCursor: [(plot) => this.point(plot)] },
    };
  }

  scale(name) {
    const values = this.values(name).filter((value) => value > 0 || this.figure.dataset[name] !== "log");
    return { time: false, distr: this.figure.dataset[name] === "log" ? 3 : 1, range: () => this.range(name, values) };
  }

  values(name) {
    const roles = name === "x" ? ["x", "x2"] : ["line", "low", "high", "truth", "dot", "bar"];
    const rows = [...this.found.points, ...this.found.dots];
    return rows.flatMap((row) => roles.map((role) => row[role])).filter((value) => value !== undefined);
  }

  range(name, values) {
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
    return {
      stroke: colour("muted"),
      font: "12px system-ui, sans-serif",
      grid: { stroke: colour("edge"), width: 1 },
      ticks: { show: false },
      gap: 6,
      size: isUp ? 14 + 6.6 * longest : 30,
      splits: (plot) => thinned(plot, name, [...ticks.keys()], isUp ? TICK_ROOM.y : Math.max(TICK_ROOM.x, 8 * longest)),
      filter: (_, splits) => splits,
      values: (_, splits) => splits.map((value) => ticks.get(value) ?? ""),
    };
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
    this.plot.setCursor({ left: this.plot.valToPos(x, "x"), top: line ? this.plot.valToPos(line, "y") : 0 });
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
    this.plot.setCursor({ left: -10, top: -10 });
    this.invite();
  }

  invite() {
    this.readout.textContent = this.figure.dataset.invite || "Arrow keys or a pointer read its values.";
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
  if (typeof uPlot === "undefined") return; // it did not load: the pictures stay
  for (const [figure, chart] of charts) {
    if (figure.isConnected) continue;
    chart.end();
    charts.delete(figure);
  }
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    if (charts.has(figure)) charts.get(figure).draw(always);
    else if (figure.querySelector("tbody tr")) charts.set(figure, new Chart(figure));
  }
}

document.addEventListener("scalewatch:exchanged", () => drawAll());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll(true));
drawAll();
