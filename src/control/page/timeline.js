// What the driver and each node did when, as bars from left to right. They have the colours of the
// nodes' states, and say what they are when one points at them.
"use strict";

(() => {
  const {element} = tfos;
  const PHASES = {  // By the class of page.css, what the key below the bars says.
    "phase-start": "starts", "phase-import": "imports TensorFlow", "phase-wait": "waits for the first rows",
    "phase-first": "first step", "phase-train": "trains", "phase-driver": "driver",
    "phase-warn": "no sign of life, or no step", "phase-bad": "failed, lost or diverged", "phase-end": "ended",
    "phase-forgotten": "not remembered",
  };
  const STYLES = {
    driver: "phase-driver", running: "phase-train", draining: "phase-train", silent: "phase-warn", stuck: "phase-warn",
    failed: "phase-bad", lost: "phase-bad", diverged: "phase-bad", done: "phase-end", stopped: "phase-end",
    forgotten: "phase-forgotten",
  };
  // What a node says before it trains, in the states in which others train.
  const BEGINNINGS = [
    [/^importing/, "phase-import"], [/^waiting for the first rows/, "phase-wait"], [/^first step/, "phase-first"],
    [/^no row read yet/, "phase-start"],
  ];
  const trains = (state) => state === "running" || state === "draining";

  /** The styles of a row's phases. A program that says nothing before its first step builds its model. */
  function stylesOf(phases) {
    const styles = phases.map(([, state, text]) =>
      (/^importing TensorFlow/.test(text) || trains(state) ? BEGINNINGS.find(([words]) => words.test(text))?.[1] : undefined) ||
      STYLES[state] || "phase-start");
    const first = styles.indexOf("phase-first");
    // It has made its first step, whatever its numbers, which come later, say.
    for (let at = 0; at < styles.length; at += 1) {
      if (first >= 0 && at > first && styles[at] === "phase-start" && trains(phases[at][1])) styles[at] = "phase-train";
    }
    let before = false;  // A first step.
    for (let at = phases.length - 1; at >= 0; at -= 1) {
      if (!trains(phases[at][1])) before = before && phases[at][1] === "starting";
      else if (styles[at] !== "phase-train") before = true;
      else if (before && !styles.slice(0, at).includes("phase-first")) styles[at] = "phase-start";
    }
    return styles;
  }

  const WORDS = {silent: "no sign of life", stuck: "no step", forgotten: "not remembered"};
  const wordsOf = (state, text) => (state === "driver" ? text : `${WORDS[state] || state}${text ? `: ${text}` : ""}`);

  /** The phases of one row between two times, each with its end. */
  function within(phases, from, to) {
    const styles = stylesOf(phases);
    return phases
      .map(([begin, state, text], at) => ({begin: Math.max(begin, from), end: Math.min(phases[at + 1]?.[0] ?? to, to), state, text, style: styles[at]}))
      .filter((phase) => phase.end > phase.begin);
  }

  function row(name, phases, from, to) {
    const bars = element("div", {class: "phases"});
    const told = [];
    for (const {begin, end, state, text, style} of within(phases, from, to)) {
      const words = `${wordsOf(state, text)}, ${tfos.duration(end - begin)} from ${tfos.duration(begin)}`;
      const bar = element("span", {class: `phase ${style}`, title: words});
      bar.style.left = `${100 * (begin - from) / (to - from)}%`;
      bar.style.width = `${100 * (end - begin) / (to - from)}%`;
      bars.append(bar);
      told.push(words);
    }
    bars.setAttribute("role", "img");
    bars.setAttribute("aria-label", `${name}: ${told.join("; ")}`);
    return element("div", {class: "phases-row"}, element("span", {class: "phases-name"}, name), bars);
  }

  /** Draws into `place` the time of `past` that its charts have, too. */
  tfos.drawTimeline = (place, past, nodes) => {
    const all = past.phases || {};
    const to = past.now_ms;
    const from = past.range === "recent" ? Math.min(past.times[0] ?? 0, to) : 0;
    const shown = nodes.filter((node) => all[String(node.node_id)]);
    if (to <= from || shown.length === 0) {
      tfos.renew(place, element("p", {class: "quiet"}, nodes.length > 0 ? "Select nodes in the table to see what they did when." : ""));
      return;
    }
    const rows = [["driver", all["-1"] || []], ...shown.map((node) => [tfos.nodeName(node), all[String(node.node_id)]])];
    const made = rows.map(([name, phases]) => row(name, phases, from, to));
    const used = new Set(rows.flatMap(([, phases]) => within(phases, from, to)).map(({style}) => style));
    const key = element("p", {class: "phases-key quiet"},
        ...Object.keys(PHASES).filter((style) => used.has(style)).map((style) => element("span", {}, element("i", {class: `phase ${style}`, "aria-hidden": "true"}), PHASES[style])));
    const times = element("div", {class: "phases-row quiet", "aria-hidden": "true"}, element("span", {class: "phases-name"}),
        element("div", {class: "phases-times"}, ...[from, (from + to) / 2, to].map((time) => element("span", {}, tfos.duration(time)))));
    tfos.renew(place, ...made, times, key);
  };
})();
