// Reads the points of a chart from the tables behind it: what is drawn is what a reader finds there, in the same words.
//
// Cells carry numbers as data attributes: x (and x2, the end of an interval), line, low, high, truth, dot, bar. A row's
// data-kind is how its dot looks. data-upright anywhere in the figure is a vertical line at that x, data-label names it.

const ROLES = ["x", "x2", "line", "low", "high", "truth", "dot", "bar"];

// Returns {points, dots, uprights}: points are the rows of the first table, by x; the cursor goes along them.
export function read(figure) {
  const [first, ...others] = [...figure.querySelectorAll("table")].map(rows);
  const points = (first || []).sort((a, b) => a.x - b.x);
  const uprights = [...figure.querySelectorAll("[data-upright]")].map(({ dataset }) => ({
    x: Number(dataset.upright),
    label: dataset.label || "",
  }));
  return { points, dots: [...points, ...others.flat()].filter((row) => row.dot !== undefined), uprights };
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
