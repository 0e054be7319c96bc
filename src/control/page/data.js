// Where the page has its data from: a coordinator that is asked again and again, or what a report
// holds. Shared by the scripts of the page: `tfos` is their one global name.
"use strict";

const tfos = {};

(() => {
  const LEAST_POLL_MS = 2000;
  const MOST_WAIT_MS = 15000;
  const MOST_ANSWER_MS = 30000;  // A tunnel may take a request, and nobody behind it answers.
  const MOST_EVENTS = 2000;

  /** Whether Spark's UI passes the page on (PassedOnPages.java). */
  tfos.isPassedOn = /\/TensorFlow\/page\/[0-9A-Za-z]+\/$/.test(location.pathname);

  /** The key that the link brought behind its `#`, where no server and no log sees it. It leaves the
   *  line of addresses, and stays for as long as the tab. Behind YARN's proxy, the pages of all
   *  applications share the tab's storage, so there the key stays with this entry of the history. */
  function takeKey() {
    const name = `tfos-key ${location.pathname}`;
    const given = new URLSearchParams(location.hash.slice(1)).get("key");
    if (given !== null) {
      if (!tfos.isPassedOn) sessionStorage.setItem(name, given);
      history.replaceState(tfos.isPassedOn ? {key: given} : null, "", location.pathname + location.search);
    }
    return (tfos.isPassedOn ? history.state?.key : sessionStorage.getItem(name)) || "";
  }

  class Refused extends Error {}
  tfos.Refused = Refused;
  tfos.GONE = "the coordinator does not answer";

  /** A signal for a request that ends it after a while, or with `signal`. */
  tfos.withinTime = (signal = undefined) => {
    const limit = AbortSignal.timeout(MOST_ANSWER_MS);
    if (!signal) return limit;
    return AbortSignal.any ? AbortSignal.any([limit, signal]) : signal;
  };

  /** Whether a request failed because nobody answers. */
  tfos.isGone = (error) => error instanceof TypeError || error.name === "TimeoutError";

  /** What a report holds; null on a page that is served. */
  tfos.recorded = () => {
    const text = document.getElementById("recorded").textContent.trim();
    return text ? JSON.parse(text) : null;
  };

  /** A coordinator. `onData(status, history)` is called after each look, `onTrouble(error)` when one
   *  failed; the looks go on. Addresses are relative: the page may be served below any path. */
  tfos.Live = class {
    constructor(onData, onTrouble) {
      this.onData = onData;
      this.onTrouble = onTrouble;
      this.key = takeKey();
      this.range = "recent";
      this.nodes = [];
      this.events = [];
      this.eventsSeen = 0;
      this.cluster = "";  // Whose events these are.
      this.failures = 0;
      this.timer = 0;
      this.looking = false;
      this.again = false;
      // By this name the coordinator knows whether this page has seen how the cluster has ended.
      this.name = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
      document.addEventListener("visibilitychange", () => this.lookSoon());
      window.addEventListener("hashchange", () => {
        this.key = takeKey() || this.key;
        this.lookSoon();
      });
    }

    useKey(key) {
      location.hash = new URLSearchParams({key}).toString();
    }

    async get(path, signal = undefined) {
      // Without a key: a proxy that adds it may stand in between.
      const headers = this.key ? this.headersWithKey() : {};
      const answer = await fetch(path, {headers, cache: "no-store", credentials: "same-origin", signal});
      if (answer.status === 401 || answer.status === 403) throw new Refused(`${answer.status}`);
      if (answer.ok) return answer;
      const plain = answer.headers.get("Content-Type")?.startsWith("text/plain");
      // Spark's UI says in words what is wrong, and the proxies in front of it with pages of theirs.
      const words = tfos.isPassedOn && !plain ? tfos.GONE : (await answer.text()).trim();
      const message = tfos.isPassedOn ? words : `${path}: ${answer.status} ${words}`;
      throw Object.assign(new Error(message), {status: answer.status, words});
    }

    headersWithKey() {
      // Proxies in front of Spark's UI drop `Authorization`, or want their own password there.
      return tfos.isPassedOn ? {Accept: `*/*;tfos-key=${this.key}`} : {Authorization: `Bearer ${this.key}`};
    }

    lookSoon() {
      if (this.looking) {
        this.again = true;
        return;
      }
      clearTimeout(this.timer);
      this.look();
    }

    async look() {
      this.looking = true;
      this.again = false;
      let wait = LEAST_POLL_MS;
      try {
        const query = `range=${this.range}&nodes=${this.nodes.join(",")}&events_from=${this.eventsSeen}&page=${this.name}`;
        const [status, past] = await Promise.all(
            [`v1/status?page=${this.name}`, `v1/history?${query}`].map(async (path) => (await this.get(path, tfos.withinTime())).json()));
        this.failures = 0;
        wait = past.ask_again_ms;
        if (this.cluster && this.cluster !== status.cluster_id) {
          // Another cluster has taken the port. What it has told leaves out its first events.
          [this.cluster, this.events, this.eventsSeen] = ["", [], 0];
          this.look();
          return;
        }
        this.cluster = status.cluster_id;
        if (this.eventsSeen > 0 && past.events_count < this.eventsSeen) this.events = [];
        // One that has changed comes again, with its number.
        const news = new Set(past.events.map((event) => event.number));
        this.events = this.events.filter((event) => !news.has(event.number)).concat(past.events).slice(-MOST_EVENTS);
        this.eventsSeen = past.events_count;
        past.events = this.events;
        this.onData(status, past);
      } catch (error) {
        this.failures += 1;
        wait = Math.min(MOST_WAIT_MS, LEAST_POLL_MS * 2 ** Math.min(this.failures, 4));
        this.onTrouble(error);
        if (error instanceof Refused) wait = 0;  // Until there is another key.
      }
      this.looking = false;
      if (this.again) {
        this.look();
      } else if (wait > 0 && !document.hidden) {
        this.timer = setTimeout(() => this.look(), wait);
      }
    }
  };

  // -- numbers as people read them

  const WHOLE = new Intl.NumberFormat("en-US", {maximumFractionDigits: 0});
  const SHORT = new Intl.NumberFormat("en-US", {notation: "compact", maximumSignificantDigits: 4});

  const known = (value) => typeof value === "number" && Number.isFinite(value);
  tfos.known = known;

  tfos.number = (value) => {
    if (!known(value)) return value === undefined || value === null ? "" : String(value);
    const size = Math.abs(value);
    if (size >= 1e15) return value.toExponential(2);
    if (size >= 1e7) return SHORT.format(value);
    if (Number.isInteger(value) || size >= 1000) return WHOLE.format(value);
    if (size >= 0.001) return Number(value.toPrecision(4)).toString();
    return value === 0 ? "0" : value.toExponential(2);
  };

  tfos.bytes = (value) => {
    if (!known(value)) return "";
    const step = ["B", "kB", "MB", "GB", "TB", "PB"];
    let at = 0;
    while (Math.abs(value) >= 999.5 && at < step.length - 1) {
      value /= 1000;
      at += 1;
    }
    return `${at > 0 && Math.abs(value) < 100 ? value.toFixed(1) : value.toFixed(0)} ${step[at]}`;
  };

  tfos.percent = (share) => (known(share) ? `${Math.round(100 * share)} %` : "");

  tfos.duration = (milliseconds) => {
    const all = Math.max(0, Math.floor(milliseconds / 1000));
    const [hours, minutes, seconds] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
    return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds)}` : `${minutes}:${two(seconds)}`;
  };

  const two = (value) => String(value).padStart(2, "0");

  /** The time of a day, in the browser's zone. */
  tfos.clock = (date, seconds = true) =>
    `${two(date.getHours())}:${two(date.getMinutes())}${seconds ? `:${two(date.getSeconds())}` : ""}`;

  const day = (date) => `${two(date.getMonth() + 1)}-${two(date.getDate())}`;

  tfos.dateAndClock = (date) => `${date.getFullYear()}-${day(date)} ${tfos.clock(date)}`;

  /** The browser's zone at a time: "UTC+05:30". Each time on the page is of this zone. */
  tfos.zone = (date) => {
    const ahead = -date.getTimezoneOffset();  // Minutes.
    const size = Math.abs(ahead);
    return `UTC${ahead < 0 ? "-" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
  };

  const DAY = 86400;  // Seconds.

  /** A moment of what lasts so many seconds: with its day where there are several. */
  tfos.moment = (date, span) => (span < DAY ? tfos.clock(date) : `${day(date)} ${tfos.clock(date, false)}`);

  /** The label of an axis for a moment, with so many seconds between two labels, and from the first
   *  to the last. */
  tfos.timeLabel = (date, step, span) => {
    const isMidnight = date.getHours() === 0 && date.getMinutes() === 0 && date.getSeconds() === 0;
    return step >= DAY || (span >= DAY && isMidnight) ? day(date) : tfos.clock(date, step < 60);
  };

  const FINAL = new Set(["done", "failed", "lost", "stopped"]);

  /** Whether a node has ended. What it counted still holds; what it held, it holds no longer. */
  tfos.hasEnded = (node) => FINAL.has(node.state);

  /** The loss of a node whose training has diverged: "nan", "inf" or "-inf". Else empty. */
  tfos.badLoss = (node) => (["nan", "inf", "-inf"].includes(node.metrics.loss) ? node.metrics.loss : "");

  /** Whether the process of a node does not answer. */
  tfos.isSilent = (node) => !tfos.hasEnded(node) && node.metrics.seconds_without_answer > 0;

  /** Whether a node that was making steps makes none any more, and nothing explains it. */
  tfos.isStuck = (node) => !tfos.hasEnded(node) && node.metrics.seconds_without_step > 0;

  /** `text` without the message of the failure at its end, which the page has above. */
  tfos.withoutMessage = (text, failure) => {
    const at = failure?.message && text ? text.indexOf(`: ${failure.message.slice(0, 80)}`) : -1;
    if (at <= 0) return text;
    // A long text ends within the message.
    return text.slice(0, at) + (text.startsWith(failure.message, at + 2) ? text.slice(at + 2 + failure.message.length) : "");
  };

  tfos.nodeName = (node) => `${node.job_name}:${node.task_index}`;

  /** The last number of a curve. */
  tfos.last = (values) => {
    for (let i = (values || []).length - 1; i >= 0; i -= 1) if (known(values[i])) return values[i];
    return undefined;
  };

  /** An element with attributes and children; texts stay texts. */
  tfos.element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "class") made.className = value;
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children);
    return made;
  };

  /** Shows a text, where it is not shown already: a reader may have selected it, and a screen reader
   *  reads again what is written again. */
  tfos.setText = (place, text) => {
    if (place.textContent !== text) place.textContent = text;
  };

  /** Makes `old` like `made`, and touches only what differs: selection and focus stay. Of `made`,
   *  the elements that are new keep their listeners, and others leave theirs behind. */
  tfos.become = (old, made) => {
    if (old.isEqualNode(made)) return;
    for (const name of old.getAttributeNames()) if (!made.hasAttribute(name)) old.removeAttribute(name);
    for (const name of made.getAttributeNames()) {
      const value = made.getAttribute(name);
      if (old.getAttribute(name) === value) continue;
      // The content security policy refuses this attribute.
      if (name === "style") old.style.cssText = made.style.cssText;
      else old.setAttribute(name, value);
    }
    tfos.renew(old, ...made.childNodes);
  };

  /** Gives `place` these children, as `replaceChildren`, with what `become` keeps. */
  tfos.renew = (place, ...children) => {
    const there = [...place.childNodes];
    children.forEach((child, at) => {
      const made = typeof child === "string" ? document.createTextNode(child) : child;
      const old = there[at];
      if (!old) place.append(made);
      else if (old.nodeName !== made.nodeName) old.replaceWith(made);
      else if (made.nodeType !== Node.TEXT_NODE) tfos.become(old, made);
      else if (old.data !== made.data) old.data = made.data;
    });
    there.slice(children.length).forEach((old) => old.remove());
  };
})();
