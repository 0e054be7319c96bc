// Puts the page together: what a coordinator says, or what a report holds, into the document.
"use strict";

(() => {
  const {element, known, number} = tfos;
  const byId = (id) => document.getElementById(id);
  const MOST_EVENTS_SHOWN = 500;
  const SMALL_WAIT = 0.1;  // Of the time.
  const [LEAST_TILE, TILE_GAP] = [150, 8];

  const TOO_LATE = "The coordinator does not answer any more, so there is no report to save. Run `tfos report` while a cluster runs, or call `cluster.report` after its end.";

  let live = null;
  let latest = null;
  let panel = null;  // A report has no coordinator to ask.

  const nodes = new tfos.Nodes({
    section: byId("nodes"), noMatch: byId("no-match"), table: byId("table"), scroller: byId("scroller"), filter: byId("filter"), shown: byId("shown"),
    legend: byId("legend"), details: byId("details"), views: [...document.querySelectorAll("[data-view]")],
  }, () => {
    drawCharts();
    panel?.show(nodes.opened());
    if (live) {
      live.nodes = nodes.picked;
      live.lookSoon();
    }
  });
  const charts = new tfos.Charts(byId("charts"), byId("more-charts"));

  /** What each node's counters grow by in a second, as the coordinator has measured it. */
  function addRates(status) {
    for (const node of status.nodes) {
      const rates = tfos.hasEnded(node) || tfos.isSilent(node) ? {} : status.rates?.[String(node.node_id)] || {};
      node.rate = node.feed ? rates.rows : undefined;
      node.data = node.feed ? rates.feed_bytes : undefined;
      // A heartbeat that comes late brings the waits of a longer time.
      const share = (rate) => (known(rate) ? Math.min(1, rate) : undefined);
      node.waits = share(rates.feed_node_wait_seconds);
      node.feederWaits = share(rates.feed_feeder_wait_seconds);
      node.cpu = rates.cpu_seconds;
    }
  }

  function stateOf(status) {
    if (status.failure) return ["failed", "failed"];
    const states = new Set(status.nodes.map((node) => node.state));
    const only = (...names) => [...states].every((state) => names.includes(state));
    const diverged = status.progress?.bad_loss;
    const stopped = status.stopped_by || states.has("stopped");
    if (only("done", "failed", "lost", "stopped")) {
      const word = stopped ? "stopped" : "finished";
      return diverged ? [`${word}, diverged`, "diverged"] : [word, stopped ? "stopped" : "done"];
    }
    if (status.stopped_by) return ["stopping", "draining"];
    // Once programs run, a node that has not come yet is a late one.
    if (states.delete("expected") && only("registered")) return ["forming", "registered"];
    if (only("registered", "starting")) return ["starting programs", "registered"];
    if (diverged) return ["running, diverged", "diverged"];
    if (status.progress?.silent) return ["running, no sign of life", "silent"];
    if (status.progress?.stuck) return ["running, no step", "silent"];
    // Nodes have their last rows, with which some train for long.
    const isLeft = known(status.progress?.done) && status.progress.done < 1;
    if (!isLeft && only("draining", "done", "lost", "stopped")) return ["finishing", "running"];
    return ["running", "running"];
  }

  function drawState(word, style, cluster) {
    tfos.setText(byId("state"), word);
    byId("state").className = `badge ${style}`;
    document.title = `${word} · tfos ${cluster}`;
  }

  function drawHeader(status, past) {
    const [word, style] = stateOf(status);
    tfos.setText(byId("cluster"), status.cluster_id);
    tfos.setText(byId("name"), status.name || "");
    drawState(word, style, status.cluster_id);
    tfos.setText(byId("doing"), word.startsWith("running") ? past.activity.doing : "");
    const started = new Date(past.started_ms);
    tfos.setText(byId("elapsed"), `${tfos.duration(past.now_ms)} since ${tfos.dateAndClock(started)} ${tfos.zone(started)}`);
    const board = status.nodes.find((node) => node.tensorboard);
    // Its way in has the key in the address, and needs cookies: proxies log the one and drop the others.
    // The link opens a tab without this one's storage: scripts there have this origin, and the key is in it.
    const showsBoard = board && live && !tfos.isPassedOn;
    byId("tensorboard").hidden = !showsBoard;
    if (showsBoard) byId("tensorboard").href = `tensorboard/${live.key ? `?key=${live.key}` : ""}`;
  }

  /** How far the training is: the same words as the driver's progress line has. */
  function drawTraining(progress) {
    byId("training").hidden = !progress?.text;
    tfos.setText(byId("training-text"), progress?.text || "");
    byId("training-done").hidden = !known(progress?.done);
    if (known(progress?.done)) byId("training-done").value = progress.done;
  }

  /** Where neither side of the feed waits, the time goes into the programs: says what looks there. */
  function drawAdvice(status) {
    const progress = status.progress || {};
    const fed = status.nodes.filter((node) => node.state === "running" && known(node.waits));
    const isBusy = fed.length > 0 && known(progress.steps_per_second) && progress.steps_per_second > 0 &&
        !progress.silent && !progress.stuck && !progress.bad_loss && !progress.nodes &&
        fed.every((node) => node.waits < SMALL_WAIT && (node.feederWaits || 0) < SMALL_WAIT);
    byId("advice").hidden = !live || !isBusy;
    if (!isBusy) return;
    // The one that the others wait for says most.
    const waits = (node) => node.metrics.share_waiting_for_nodes || 0;
    const node = fed.reduce((least, other) => (waits(other) < waits(least) ? other : least));
    tfos.renew(byId("advice"), "The nodes are busy with their own program: ",
        element("code", {}, `tfos profile ${tfos.nodeName(node)}`), " says with what.");
  }

  function drawFailure(failure) {
    byId("failure").hidden = !failure;
    if (!failure) return;
    const who = failure.node_id >= 0
      ? `${failure.job_name}:${failure.task_index} on ${failure.host} failed to`
      : "the cluster: could not";
    tfos.setText(byId("failure-title"), `${who} ${failure.step}`);
    tfos.setText(byId("failure-message"), failure.message);
    const more = [failure.traceback, (failure.log_tail || []).join("\n")].filter((text) => text);
    byId("failure-more").hidden = more.length === 0;
    tfos.setText(byId("failure-text"), more.join("\n\n"));
  }

  function tiles(status, past) {
    const running = status.nodes.filter((node) => !tfos.hasEnded(node));
    const total = (values) => (values.length ? values.reduce((all, value) => all + value, 0) : undefined);
    const sum = (name, nodes) => total(nodes.map((node) => node.metrics[name]).filter(known));
    const rates = (name) => running.map((node) => node[name]).filter(known);
    const mean = (values) => (values.length ? total(values) / values.length : undefined);
    const before = status.nodes.map((node) => node.before.rows).filter(known);
    const rows = total([sum("rows", status.nodes.filter((node) => node.feed)), ...before].filter(known));
    const counts = {};
    for (const node of status.nodes) counts[node.state] = (counts[node.state] || 0) + 1;
    const made = [["Nodes", number(status.nodes.length), Object.entries(counts).map(([state, count]) => `${number(count)} ${state}`).join(", ")]];
    const fed = Object.entries(past.activity.epochs_fed);
    const {epoch, epochs} = status.progress || {};
    // Of rows that nodes cache, all epochs are fed at once.
    if (known(epoch)) made.push(["Epoch", number(epoch), known(epochs) ? `of ${number(epochs)}` : ""]);
    else if (fed.length) made.push(["Epochs fed", number(fed.find(([queue]) => queue === "input")?.[1] ?? fed[0][1]), ""]);
    // When the run is over: how far the nodes came that got to its end, if any did.
    const done = status.nodes.filter((node) => node.state === "done");
    const training = (nodes) => nodes.filter((node) => node.rank >= 0);
    const telling = [running, done, status.nodes].map(training).find((some) => some.length > 0) || [];
    const steps = telling.map((node) => node.metrics.step).filter(known);
    if (steps.length) {
      // A node that came in place of a lost one does not count until it has caught up.
      const least = status.progress?.step ?? Math.min(...steps);
      const most = Math.max(least, ...steps);
      const rate = status.progress?.steps_per_second;
      made.push(["Step", least === most ? number(most) : `${number(least)} to ${number(most)}`, known(rate) ? `${number(rate)}/s` : ""]);
    }
    const losses = telling.map((node) => node.metrics.loss).filter(known);
    if (status.progress?.bad_loss) {
      made.push(["Loss", status.progress.bad_loss, "the training has diverged"]);
    } else if (losses.length) {
      const [least, most] = [Math.min(...losses), Math.max(...losses)];
      made.push(["Loss, mean", number(mean(losses)), least === most ? "" : `${number(least)} to ${number(most)}`]);
    }
    if (known(rows)) {
      const rate = status.progress?.rows_per_second;
      const data = total(rates("data"));
      const more = known(data) ? `${tfos.bytes(data)}/s` : "";
      made.push(["Rows/s", number(known(rate) ? Math.round(rate) : undefined) || "0", running.length ? more : "ended"]);
      made.push(["Rows read", number(rows), ""]);
      const [node, feeder] = [mean(rates("waits")), mean(rates("feederWaits"))];
      if (known(node)) made.push(["Nodes wait for rows", tfos.percent(node), `Spark waits for nodes: ${tfos.percent(feeder || 0)}`]);
      made.push(["Queue", tfos.bytes(sum("feed_queued_bytes", running) || 0), ""]);
    }
    const cores = total(rates("cpu"));
    const memory = sum("rss_bytes", running);
    if (known(cores)) made.push(["CPU of programs", `${cores.toFixed(1)} cores`, known(memory) ? `memory ${tfos.bytes(memory)}` : ""]);
    // Nodes that share a GPU tell all of its memory, so there is no sum of that.
    const gpus = running.map((node) => node.metrics.gpu_utilization).filter(known);
    if (gpus.length) made.push(["GPU use, mean", tfos.percent(gpus.reduce((all, value) => all + value, 0) / gpus.length), gpus.length === running.length ? "" : `${number(gpus.length)} of ${number(running.length)} nodes`]);
    return made;
  }

  /** Rows of nearly as many tiles: none stands alone below the others. */
  function balanceTiles() {
    const place = byId("tiles");
    const most = Math.max(1, Math.floor((place.clientWidth + TILE_GAP) / (LEAST_TILE + TILE_GAP)));
    const rows = Math.max(1, Math.ceil(place.children.length / most));
    const columns = Math.max(1, Math.ceil(place.children.length / rows));
    place.style.gridTemplateColumns = `repeat(${columns}, minmax(0, ${rows > 1 ? "1fr" : "190px"}))`;
  }

  function drawTiles(status, past) {
    tfos.renew(byId("tiles"), ...tiles(status, past).map(([title, value, more]) => element("div", {},
        element("dt", {}, title), element("dd", {}, String(value), more ? element("small", {}, more) : ""))));
    balanceTiles();
  }

  function drawLedger(past) {
    const {items_read: read, items_moved: moved, unit, cut_short: cut} = past.activity;
    tfos.setText(byId("ledger"), read > 0
      ? `Ledger: ${cut ? "at least " : ""}${number(read)} ${unit} read from Spark by tasks that have ended${moved ? `, ${number(moved)} ${unit} moved from lost nodes` : ""}. The view "Rows" shows what became of them.`
      : "");
  }

  function drawEvents(past, failure) {
    const list = byId("events");
    const mark = `${past.events_count} ${Boolean(failure)}`;
    if (list.dataset.mark === mark) return;
    list.dataset.mark = mark;
    const shown = past.events.slice(-MOST_EVENTS_SHOWN).reverse();
    const made = shown.map((event) => element("li", {},
        element("time", {}, tfos.duration(event.time_ms)), element("span", {}, tfos.withoutMessage(event.text, failure))));
    const left = Math.max(-1, ...past.events.map((event) => event.number)) + 1 - shown.length;
    if (left > 0) made.push(element("li", {class: "quiet"}, `${number(left)} earlier events are not shown`));
    list.replaceChildren(...made);
  }

  function drawCharts() {
    if (latest) charts.show(latest.past, nodes.curves(), latest.status.nodes);
  }

  function draw(status, past) {
    latest = {status, past};
    for (const node of status.nodes) {
      node.metrics = status.metrics[String(node.node_id)] || {};
      node.before = status.metrics_before?.[String(node.node_id)] || {};
      node.brief = tfos.withoutMessage(node.detail, status.failure);
    }
    addRates(status);
    byId("ask-key").hidden = true;
    byId("save").hidden = !live;
    byId("content").hidden = false;
    drawHeader(status, past);
    drawTraining(status.progress);
    drawAdvice(status);
    drawFailure(status.failure);
    drawTiles(status, past);
    nodes.show(status.nodes, past.activity.unit || "rows");
    panel?.show(nodes.opened());
    drawCharts();
    drawLedger(past);
    tfos.drawTimeline(byId("timeline"), past, status.nodes);
    drawEvents(past, status.failure);
    document.body.dataset.looks = String(Number(document.body.dataset.looks || 0) + 1);
  }

  function say(text) {
    tfos.setText(byId("notice"), text);
    byId("notice").hidden = !text;
  }

  function onTrouble(error) {
    const ended = latest && (latest.status.failure || latest.status.nodes.every(tfos.hasEnded));
    if (latest && !ended) drawState("unknown", "unknown", latest.status.cluster_id);
    if (error instanceof tfos.Refused) {
      byId("ask-key").hidden = false;
      tfos.setText(byId("ask-key-why"), live.key
        ? "The key does not open this cluster: a cluster that is started again has another one. Open the link that the driver printed, or paste its key."
        : "This page needs the key to read. Open the link that the driver printed when the cluster started, or paste its key.");
      byId("content").hidden = !latest;
      byId("key").focus();
      return;
    }
    // A proxy may answer with a page of its own, which is not JSON.
    const why = tfos.isGone(error) || error instanceof SyntaxError ? tfos.GONE : error.message;
    offerReport(false);
    say(latest
      ? `${ended ? "The cluster has ended, and" : "At"} ${ended ? "" : `${tfos.clock(new Date())}, `}${why}${ended ? " any more" : ""}. This is what was known last.${ended ? " To save a report, run \`tfos report\` before the end, or call \`cluster.report\` in the driver program." : ""}`
      : `No data: ${why}. Has the cluster ended, or can this host not reach it?`);
  }

  function chooseRange(range) {
    for (const name of ["recent", "whole"]) byId(`range-${name}`).setAttribute("aria-pressed", String(name === range));
    if (live) {
      live.range = range;
      live.lookSoon();
    } else {
      const recorded = tfos.recorded();
      draw(recorded.status, recorded[range]);
    }
  }

  /** A report is the coordinator's work, and it ends with the cluster. */
  function offerReport(isThere) {
    byId("save").disabled = !isThere;
    byId("save").title = isThere ? "" : TOO_LATE;
  }

  async function saveReport() {
    try {
      const html = await (await live.get("v1/report")).blob();
      const link = element("a", {href: URL.createObjectURL(html), download: `tfos-${latest.status.cluster_id}.html`});
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    } catch (error) {
      say(tfos.isGone(error) ? TOO_LATE : `The report could not be fetched: ${error.message}`);
    }
  }

  new ResizeObserver(balanceTiles).observe(byId("tiles"));
  for (const range of ["recent", "whole"]) byId(`range-${range}`).addEventListener("click", () => chooseRange(range));
  byId("save").addEventListener("click", saveReport);
  byId("ask-key").addEventListener("submit", (event) => {
    event.preventDefault();
    live.useKey(byId("key").value.trim());
    byId("key").value = "";
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.matches("input") || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    byId("filter").focus();
  });

  if (tfos.recorded()) {
    say("A report of a run: it does not change.");
    chooseRange("whole");
  } else {
    live = new tfos.Live((status, past) => {
      say("");
      offerReport(true);
      draw(status, past);
      const wanted = nodes.picked;
      if (String(live.nodes) !== String(wanted)) {
        live.nodes = wanted;
        live.lookSoon();
      }
    }, onTrouble);
    panel = new tfos.Panel(byId("panel"), live, () => nodes.close());
    live.look();
  }
})();
