// Keeps a view fresh, and follows logs. The server renders: this script replaces the parts marked `data-live` by their
// new rendering, and shows the age of the page while the server or Redis does not answer. Texts become only text nodes.
"use strict";

const freshness = document.getElementById("freshness");
const readAt = document.getElementById("read-at");
let busy = false;
let rests = false;
let again = false;
let events = null;

function live() {
  return events !== null && events.readyState === EventSource.OPEN;
}

function clock(iso) {
  return iso.slice(11, 19);
}

function say(words, away) {
  freshness.classList.toggle("away", away);
  freshness.replaceChildren(document.createTextNode(words));
}

function fresh() {
  say((live() ? "Live, read at " : "Read at ") + clock(readAt.dateTime) + " UTC", false);
}

function stale(why) {
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(readAt.dateTime)) / 1000));
  const age = seconds < 120 ? seconds + " s" : Math.round(seconds / 60) + " min";
  say("As of " + clock(readAt.dateTime) + " UTC, " + age + " old: " + why, true);
}

const REFUSED = {
  401: "you are not signed in any more; reload the page to sign in",
  403: "your token may not see it any more",
  404: "it is gone; see History",
};

async function reload() {
  if (busy || rests) {
    again = true;
    return;
  }
  busy = true;
  const began = Date.now();
  let rest = 1000;
  try {
    const answer = await fetch(location.href, { credentials: "same-origin" });
    if (!answer.ok) {
      stale(REFUSED[answer.status] || "the server answers " + answer.status);
      return;
    }
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const now = next.getElementById(part.id);
      if (now && now.innerHTML !== part.innerHTML) {
        replace(part, now);
      }
    }
    readAt.dateTime = next.getElementById("read-at").dateTime;
    fresh();
    // A view of thousands of pods takes long to read: it is then read more rarely.
    rest = Math.max(rest, 5 * (Date.now() - began));
  } catch (error) {
    stale("the server does not answer");
  } finally {
    busy = false;
    rests = true;
    setTimeout(end, rest);
  }
}

function end() {
  rests = false;
  if (again) {
    again = false;
    reload();
  }
}

// Keyboard users keep their place: the link that had the focus gets it again, if it still exists.
function replace(part, now) {
  const held = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const across = Array.from(part.querySelectorAll(".scroll"), (one) => one.scrollLeft);
  part.replaceChildren(...Array.from(now.childNodes, (node) => document.importNode(node, true)));
  part.querySelectorAll(".scroll").forEach((one, at) => { one.scrollLeft = across[at] || 0; });
  if (held !== null) {
    const link = Array.from(part.querySelectorAll("a")).find((one) => one.getAttribute("href") === held);
    if (link) {
      link.focus({ preventScroll: true });
    }
  }
}

const watch = document.body.dataset.watch;
const AGAIN_MS = 10000;

function listen() {
  events = new EventSource("/events?watch=" + encodeURIComponent(watch));
  events.addEventListener("open", fresh);
  events.addEventListener("change", reload);
  events.addEventListener("away", (event) => stale(JSON.parse(event.data)));
  // The browser connects again by itself, but not after a refusal: too many streams, or a token that has run out.
  events.addEventListener("error", () => stale("the server does not answer; trying again"));
}

if (watch) {
  listen();
  setInterval(() => {
    if (events.readyState === EventSource.CLOSED) {
      listen();
    }
    if (!live() || freshness.classList.contains("away")) {
      reload();
    }
  }, AGAIN_MS);
}

// -- logs ---------------------------------------------------------------------------------------
const MOST_LINES = 5000;
const logs = document.querySelector("[data-log]");
if (logs) {
  const button = document.getElementById("follow");
  const role = document.getElementById("role");
  const replica = document.getElementById("replica");
  const note = document.getElementById("log-note");
  const pane = document.getElementById("log");
  const state = document.getElementById("log-state");
  let stream = null;

  const tell = (words) => {
    note.textContent = words;
    note.hidden = !words;
  };

  const stop = (words) => {
    if (stream) {
      stream.close();
      stream = null;
    }
    button.textContent = "Follow";
    state.textContent = words;
  };

  const start = () => {
    stop("");
    pane.replaceChildren();
    button.textContent = "Stop";
    state.textContent = "Following";
    tell("");
    const wanted = new URLSearchParams({ role: role.value, replica: replica.value });
    stream = new EventSource(logs.dataset.log + "?" + wanted);
    stream.addEventListener("note", (event) => tell(JSON.parse(event.data)));
    stream.addEventListener("lines", (event) => {
      const below = pane.scrollHeight - pane.scrollTop - pane.clientHeight < 40;
      for (const [label, line] of JSON.parse(event.data)) {
        const name = document.createElement("b");
        name.textContent = label + "  ";
        pane.append(name, line + "\n");
      }
      while (pane.childNodes.length > 2 * MOST_LINES) {
        pane.firstChild.remove();
      }
      if (below) {
        pane.scrollTop = pane.scrollHeight;
      }
    });
    stream.addEventListener("end", (event) => stop(JSON.parse(event.data)));
    stream.addEventListener("error", () => stop("The stream broke off; Follow reads it again."));
  };

  button.hidden = false;
  button.addEventListener("click", () => (stream ? stop("Stopped") : start()));
  for (const choice of [role, replica]) {
    choice.addEventListener("change", () => { if (stream) { start(); } });
  }
}
