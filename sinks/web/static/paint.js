// Draws the parts of a chart on its canvas, in the colours of the style sheet: bands, bars, lines across, dots.

const DOTS = { observed: ["accent", 3.5], run: ["run", 2.6], outside: ["warn-edge", 3.2], anomaly: ["bad", 5.5] };
const HOLLOW = new Set(["anomaly"]);

// Returns a colour of the style sheet as it is now, light or dark.
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// Returns a function of uPlot's hook `draw` that paints what was read from the tables.
export function painter(read) {
  return (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    bars(plot, read.points);
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

function uprights(plot, lines) {
  const { ctx, bbox } = plot;
  ctx.strokeStyle = ctx.fillStyle = colour("muted");
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  lines.forEach(({ x, label }, place) => {
    const at = plot.valToPos(x, "x", true);
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    const isRight = at > bbox.left + 0.7 * bbox.width;
    ctx.textAlign = isRight ? "right" : "left";
    ctx.fillText(label, at + (isRight ? -5 : 5) * devicePixelRatio, bbox.top + (14 + 16 * place) * devicePixelRatio);
  });
  ctx.setLineDash([]);
}

function circle(plot, { x, dot, kind }) {
  const { ctx } = plot;
  const [name, radius] = DOTS[kind] || DOTS.observed;
  const [left, top] = pixel(plot, x, dot);
  ctx.beginPath();
  ctx.arc(left, top, radius * devicePixelRatio, 0, 2 * Math.PI);
  ctx.fillStyle = ctx.strokeStyle = colour(name);
  ctx.lineWidth = 2 * devicePixelRatio;
  if (HOLLOW.has(kind)) ctx.stroke();
  else ctx.fill();
}
