// Makes one tree of elements like another, changing as little as possible: what did not change keeps its focus, its scroll
// position and its selection; a <details> stays open, what somebody typed stays typed. Elements with an id are followed when
// they move. Elements with data-script were made by a script and are left alone.

const KEPT = new Set(["open"]); // attributes that belong to the reader

// Returns whether anything was changed.
export function morph(from, to) {
  const focused = document.activeElement;
  const changed = patch(from, to);
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
  return changed;
}

function patch(from, to) {
  if (from.nodeType === Node.ELEMENT_NODE) {
    const attributes = patchAttributes(from, to);
    return patchChildren(from, to) || attributes;
  }
  if (from.nodeValue === to.nodeValue) return false;
  from.nodeValue = to.nodeValue;
  return true;
}

function patchAttributes(from, to) {
  const wanted = [...to.attributes].filter(({ name, value }) => !KEPT.has(name) && from.getAttribute(name) !== value);
  const unwanted = [...from.attributes].filter(({ name }) => !KEPT.has(name) && !to.hasAttribute(name));
  for (const { name, value } of wanted) from.setAttribute(name, value);
  for (const { name } of unwanted) from.removeAttribute(name);
  return wanted.length + unwanted.length > 0;
}

function patchChildren(from, to) {
  const rest = [...from.childNodes].filter((node) => !node.dataset?.script);
  let changed = false;
  const children = [...to.childNodes].map((wanted) => {
    const place = rest.findIndex((node) => node.nodeName === wanted.nodeName && (node.id || "") === (wanted.id || ""));
    if (place < 0) {
      changed = true;
      return made(wanted);
    }
    const [node] = rest.splice(place, 1);
    changed = patch(node, wanted) || changed;
    return node;
  });
  for (const node of rest) node.remove();
  return arrange(from, children) || rest.length > 0 || changed;
}

// A new element; the style sheet shows for a moment that those with a name of their own are new.
function made(wanted) {
  const node = document.importNode(wanted, true);
  if (node.id) node.classList.add("fresh");
  return node;
}

function arrange(parent, children) {
  let moved = false;
  let at = skipped(parent.firstChild);
  for (const node of children) {
    if (node === at) {
      at = skipped(at.nextSibling);
    } else {
      parent.insertBefore(node, at);
      moved = true;
    }
  }
  return moved;
}

function skipped(node) {
  let found = node;
  while (found?.dataset?.script) found = found.nextSibling;
  return found;
}
