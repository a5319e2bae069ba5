// Keeps an open page up to date. The agent tells by server-sent events which kinds of things changed; where the page shows one
// of them it is fetched again, and its parts are exchanged in place. Without a stream it is fetched every few seconds.

import { morph } from "./morph.js";

const LEAST_MS = 2000; // between two fetches, and ten times as long as one took: a busy agent is asked less
const POLL_MS = 15000;
const STREAM_AGAIN_MS = 60000;
const SPEAK_MS = 10000; // a screen reader is told of changes no more often

const state = { known: versions(document), told: null, stream: null, poll: 0, timer: 0, free: 0, spoken: -SPEAK_MS, asking: null };

function versions(page) {
  return JSON.parse(page.body.dataset.versions || "{}");
}

function follows() {
  return (document.body.dataset.follows || "").split(" ").filter(Boolean);
}

// Fetches the page anew, by default that of the address bar. Calls follow one another: a later address wins.
export async function refresh() {
  state.asking?.abort();
  const asking = (state.asking = new AbortController());
  const began = performance.now();
  try {
    const response = await fetch(location.href, { signal: asking.signal, headers: { Accept: "text/html" } });
    if (response.status >= 500) throw new Error(`status ${response.status}`);
    exchange(new DOMParser().parseFromString(await response.text(), "text/html"));
    tell("live");
  } catch (error) {
    if (error.name !== "AbortError") tell("no answer, trying again", true);
  } finally {
    state.free = performance.now() + Math.max(LEAST_MS, 10 * (performance.now() - began));
    if (state.asking === asking) state.asking = null;
  }
  if (isBehind()) soon();
}

// Whether the agent told of something newer than what the page shows.
function isBehind() {
  return state.told !== null && follows().some((name) => state.told[name] !== state.known[name]);
}

function exchange(page) {
  const changed = [];
  for (const part of document.querySelectorAll("[data-live]")) {
    const wanted = page.getElementById(part.id);
    if (wanted && morph(part, wanted)) changed.push(part);
  }
  state.known = versions(page);
  document.title = page.title;
  if (changed.length === 0) return;
  document.dispatchEvent(new CustomEvent("scalewatch:exchanged"));
  speak(page);
}

// Says what a page counts, such as its open alerts, when that has become different.
function speak(page) {
  const said = page.body.dataset.says || "";
  if (said === (document.body.dataset.says || "") || performance.now() - state.spoken < SPEAK_MS) return;
  document.body.dataset.says = said;
  state.spoken = performance.now();
  document.getElementById("spoken").textContent = said;
}

function tell(words, isBad = false) {
  const shown = document.getElementById("live");
  shown.hidden = false;
  shown.className = isBad ? "live bad" : "live";
  shown.textContent = words;
}

function soon() {
  if (state.timer || state.asking) return;
  state.timer = setTimeout(() => {
    state.timer = 0;
    refresh();
  }, Math.max(0, state.free - performance.now()));
}

function heard(event) {
  state.told = JSON.parse(event.data);
  tell("live");
  if (isBehind()) soon();
}

function open() {
  clearInterval(state.poll);
  state.stream = new EventSource("/changes");
  state.stream.onmessage = heard;
  state.stream.onerror = () => {
    if (state.stream.readyState !== EventSource.CLOSED) return tell("no answer, trying again", true); // it tries by itself
    tell("updates every few seconds");
    state.poll = setInterval(soon, POLL_MS);
    setTimeout(() => state.poll && !document.hidden && (close(), open()), STREAM_AGAIN_MS);
  };
}

function close() {
  state.stream?.close();
  clearInterval(state.poll);
  state.poll = 0;
}

// A page that nobody looks at asks nothing: browsers open only six connections to a server.
function begin() {
  if (document.body.dataset.refresh === "off") return;
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  if (!document.hidden) open();
}

begin();
