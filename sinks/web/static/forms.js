// Forms that only ask are answered in place: the address gets their words and the page is fetched anew, as it would be
// without a script, but nothing jumps and the focus stays.

import { refresh } from "./live.js";

function address(form) {
  const asked = new URLSearchParams(new FormData(form));
  for (const [name, value] of [...asked]) if (!value) asked.delete(name);
  return `${form.getAttribute("action") || location.pathname}?${asked}`;
}

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-in-place]");
  if (!form) return;
  event.preventDefault();
  history.replaceState(null, "", address(form));
  refresh();
});

// Keys: "/" goes to the search of a page.
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, select, textarea");
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const search = document.querySelector("input[type=search]");
  if (!search) return;
  event.preventDefault();
  search.focus();
});
