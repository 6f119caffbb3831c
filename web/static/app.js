// Fenceline's script: times in the viewer's zone, live regions, copying. The
// pages work without it.
"use strict";

(() => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const dates = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: zone, hourCycle: "h23", ...options });
  const formats = {
    seconds: dates({ hour: "2-digit", minute: "2-digit", second: "2-digit" }),
    minutes: dates({ hour: "2-digit", minute: "2-digit" }),
    day: dates({ day: "numeric", month: "short" }),
    year: dates({ day: "numeric", month: "short", year: "numeric" }),
    date: new Intl.DateTimeFormat("en-CA", { timeZone: zone }),
  };
  const day = (t) => formats.day.format(t).replace("Sept", "Sep");

  // The server's clock against ours, in milliseconds.
  let skew = 0;
  const now = () => Date.now() + skew;
  const setClock = (root) => {
    const made = root.querySelector("[data-now]");
    if (made) skew = Number(made.dataset.now) - Date.now();
  };

  // The same forms as the server's, see format.go.
  const show = {
    age(t) {
      const s = Math.floor((now() - t) / 1000);
      if (s < 5) return "just now";
      if (s < 60) return `${s} s ago`;
      if (s < 3600) return `${Math.floor(s / 60)} min ago`;
      if (s < 48 * 3600) return `${Math.floor(s / 3600)} h ago`;
      return `${Math.floor(s / 86400)} d ago`;
    },
    clock(t) {
      if (formats.date.format(t) === formats.date.format(now())) return formats.seconds.format(t);
      const sameYear = formats.date.format(t).slice(0, 4) === formats.date.format(now()).slice(0, 4);
      return sameYear ? `${day(t)} ${formats.minutes.format(t)}` : formats.year.format(t);
    },
    full: (t) => `${formats.year.format(t)}, ${formats.seconds.format(t)} (${zone})`,
    time: (t) => formats.seconds.format(t),
    minute: (t) => formats.minutes.format(t),
    day: (t) => `${day(t)} ${formats.minutes.format(t)}`,
  };

  function localize(root) {
    for (const el of root.querySelectorAll("[data-form]")) {
      const text = show[el.dataset.form](new Date(el.dateTime || el.dataset.stamp));
      if (el.textContent !== text) el.textContent = text;
    }
    for (const el of root.querySelectorAll("[data-zone]")) if (el.textContent !== zone) el.textContent = zone;
    for (const el of root.querySelectorAll("[data-own-zone]")) el.value = zone;
    for (const el of root.querySelectorAll(".copy")) el.hidden = !navigator.clipboard;
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest(".copy");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Failed";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const open of document.querySelectorAll("details.confirm[open]")) {
      open.open = false;
      open.querySelector("summary").focus();
    }
  });

  // morph makes one node like another and touches only what differs, so that
  // focus, scrolling, selections and open details stay.
  function morph(from, to) {
    if (from.isEqualNode(to)) return;
    if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) {
      from.replaceWith(to.cloneNode(true));
      return;
    }
    if (from.nodeType !== Node.ELEMENT_NODE) {
      from.nodeValue = to.nodeValue;
      return;
    }
    morphAttributes(from, to);
    morphChildren(from, to);
  }

  function morphAttributes(from, to) {
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && !(name === "open" && from.nodeName === "DETAILS")) from.removeAttribute(name);
    }
    for (const { name, value } of to.attributes) {
      if (from.getAttribute(name) !== value) from.setAttribute(name, value);
    }
  }

  // Children with an id are found again wherever they went.
  function morphChildren(from, to) {
    const known = new Map([...from.children].filter((c) => c.id).map((c) => [c.id, c]));
    let at = from.firstChild;
    for (const next of to.childNodes) {
      const same = next.id && known.get(next.id);
      if (same) {
        if (same !== at) from.insertBefore(same, at);
        else at = at.nextSibling;
        morph(same, next);
      } else if (at && !(at.id && at.id !== next.id)) {
        const here = at;
        at = at.nextSibling;
        morph(here, next);
      } else {
        from.insertBefore(next.cloneNode(true), at);
      }
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  }

  // A form with data-preview shows what it would make while one types; a file that
  // is chosen is read into the field that data-into names.
  const waits = new WeakMap();
  document.addEventListener("input", async (event) => {
    const form = event.target.closest("form[data-preview]");
    if (!form) return;
    const field = document.getElementById(event.target.dataset.into);
    if (field && event.target.files.length) {
      field.value = await event.target.files[0].text();
      event.target.value = "";
    }
    clearTimeout(waits.get(form));
    waits.set(form, setTimeout(() => preview(form), 500));
  });
  let turn = 0;
  async function preview(form) {
    const mine = ++turn;
    try {
      const answer = await fetch(form.dataset.preview, { method: "POST", body: new FormData(form), headers: { "Fenceline-Fragment": "1" }, redirect: "manual" });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("preview");
      if (fresh && mine === turn) morph(document.getElementById("preview"), fresh);
    } catch {
      // The server is away; the button says so.
    }
  }

  const regions = () => document.querySelectorAll("[data-live]");

  async function refresh() {
    const answer = await fetch(location.href, { headers: { "Fenceline-Fragment": "1" }, redirect: "manual", cache: "no-store" });
    if (answer.type === "opaqueredirect") { // the session has ended
      location.reload();
      return;
    }
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(`<main>${await answer.text()}</main>`, "text/html");
    setClock(fresh);
    localize(fresh);
    for (const region of regions()) {
      const next = fresh.querySelector(`[data-live="${region.dataset.live}"]`);
      if (next) morph(region, next);
    }
  }

  // At most one refresh at a time and two a second, however many events come.
  const pause = 500;
  let busy = false;
  let again = false;
  async function soon() {
    again = true;
    if (busy) return;
    busy = true;
    while (again) {
      again = false;
      try {
        await refresh();
      } catch {
        // The server is away; the stream will say when it is back.
      }
      await new Promise((done) => setTimeout(done, pause));
    }
    busy = false;
  }

  let stream = null;
  function say(text, lost) {
    const live = document.getElementById("live");
    if (!live) return;
    live.hidden = false;
    live.classList.toggle("lost", lost);
    if (live.textContent !== text) live.textContent = text;
  }

  function connect() {
    if (stream || !regions().length) return;
    const of = document.querySelector("[data-events]");
    // From where the page was read: what happened since then is told first.
    stream = new EventSource(`/events?seen=${document.body.dataset.seen}` + (of ? `&export=${of.dataset.events}` : ""));
    stream.onopen = () => say("Live", false);
    stream.onerror = () => {
      say("Reconnecting…", true);
      if (stream.readyState === EventSource.CLOSED) { // refused: the session may have ended
        disconnect();
        setTimeout(() => { connect(); soon(); }, 5000);
      }
    };
    stream.addEventListener("change", soon);
    stream.addEventListener("resync", soon);
  }

  function disconnect() {
    if (stream) stream.close();
    stream = null;
  }

  // A browser has few connections for a site: a tab that nobody sees gives its own back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      disconnect();
    } else {
      connect();
      soon();
    }
  });
  addEventListener("pagehide", disconnect);
  addEventListener("pageshow", (event) => { if (event.persisted) { connect(); soon(); } });

  setClock(document);
  localize(document);
  setInterval(() => {
    localize(document);
    // Some things happen without an event.
    if (!document.hidden && document.querySelector("[data-every]")) soon();
  }, 5000);
  if (!document.hidden) connect();
})();
