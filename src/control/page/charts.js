// The curves: one chart for each thing that is measured, with the mean of all nodes, the room
// between the least and the most of them, and the nodes that were picked.
"use strict";

(() => {
  const {element, known, last} = tfos;
  const HEIGHT = 150;
  const colorOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const MOST_OF_PROGRAM = 12;
  const MOST_SUMMED = 8;  // Nodes.
  const MOST_NAMED = 3;
  const FONT = "11px system-ui, sans-serif";
  const MARK = 16;  // What uPlot draws between an axis and its labels, and a little room.

  const perSecond = (v) => (known(v) ? `${tfos.number(v)}/s` : "");

  /** How wide labels of an axis are. It asks the canvas that draws them, each time: another one may
   *  have another font, as a browser may learn the system's font only after the page's begin. */
  function widest(pen, labels) {
    pen.save();
    pen.font = FONT;
    const widths = labels.map((label) => pen.measureText(label).width);
    pen.restore();
    return Math.ceil(Math.max(0, ...widths));
  }

  // What is measured of every cluster. `level`: the axis need not begin at zero. `of`: which curve stands for all nodes; of many, it is the mean
  // in any case, as the curve of one node would vanish below the sum.
  const COMMON = [
    {id: "rows", title: "Rows read", of: "sum", unit: perSecond},
    {
      id: "waits", title: "Waiting", unit: tfos.percent, most: 1,
      lines: [
        {label: "nodes, for rows:", name: "feed_node_wait_seconds", color: "--c2"},
        {label: "Spark, for nodes:", name: "feed_feeder_wait_seconds", color: "--c1"},
      ],
    },
    {id: "feed_queued_bytes", title: "Rows waiting in nodes", of: "sum", level: true, unit: tfos.bytes},
    {id: "step", title: "Steps", of: "mean", unit: perSecond},
    {id: "share_in_collectives", title: "Time in collective operations", of: "mean", unit: tfos.percent, most: 1},
    {id: "share_waiting_for_nodes", title: "Time waiting for other nodes", of: "mean", unit: tfos.percent, most: 1},
    {id: "collective_bytes_per_second", title: "Bytes of collective operations", of: "sum", unit: (v) => (known(v) ? `${tfos.bytes(v)}/s` : "")},
    {id: "cpu_seconds", title: "CPU cores of the program", of: "mean", unit: (v) => (known(v) ? Number(v.toPrecision(3)).toString() : "")},
    {id: "rss_bytes", title: "Memory of the program", of: "mean", level: true, unit: tfos.bytes},
    {id: "gpu_utilization", title: "GPU utilization", of: "mean", unit: tfos.percent, most: 1},
    {id: "gpu_memory_bytes", title: "GPU memory in use", of: "mean", level: true, unit: tfos.bytes},
    {id: "seconds_without_answer", title: "No sign of life", of: "mean", names: true, unit: (v) => (known(v) ? `${tfos.number(v)} s` : "")},
    {id: "parameter_pushes", title: "Pushes to parameter servers", of: "sum", unit: perSecond},
    {id: "parameter_bytes_received", title: "Bytes to parameter servers", of: "sum", unit: (v) => (known(v) ? `${tfos.bytes(v)}/s` : "")},
  ];

  /** What charts to show for these series: the program's own numbers first, above all its loss.
   *  diverged: whether the loss of a node is not a number. */
  function choose(series, diverged) {
    const own = Object.keys(series).filter((name) => series[name].source === "program").sort((a, b) =>
      (/loss/.test(b) - /loss/.test(a)) || (/^loss$/.test(b) - /^loss$/.test(a)) || (a < b ? -1 : 1));
    const ofProgram = own.map((name) => ({
      id: name, title: name, of: "mean", level: series[name].kind !== "rate",
      unit: series[name].kind === "rate" ? perSecond : tfos.number,
    }));
    // A loss that was not a number from the first sample on has no curve, and is what matters most.
    if (diverged && !series.loss) ofProgram.unshift({id: "loss", title: "loss", of: "mean", level: true, unit: tfos.number});
    const ofAll = COMMON.filter((chart) => chart.lines ? chart.lines.some((line) => series[line.name]) : series[chart.id]);
    return {ofProgram, ofAll};
  }

  /** "nan since 1:01", with the nodes if not all have diverged; empty if none has. */
  function badLosses(nodes, diverged) {
    const bad = nodes.filter(tfos.badLoss);
    if (!bad.length) return "";
    const times = bad.map((node) => diverged[node.node_id]).filter(known);
    const since = times.length ? ` since ${tfos.duration(Math.min(...times))}` : "";
    const which = bad.length === nodes.length ? "" : ` on ${bad.length > MOST_NAMED ? `${bad.length} of ${nodes.length} nodes` : bad.map(tfos.nodeName).join(", ")}`;
    return `${tfos.badLoss(bad[0])}${since}${which}`;
  }

  class Chart {
    constructor(plan, sync) {
      this.plan = plan;
      this.sync = sync;
      this.readout = element("span");
      this.place = element("div", {class: "plot"});
      this.box = element("div", {class: "chart", role: "img", "data-chart": plan.id},
                         element("h3", {}, plan.title, this.readout), this.place);
      this.shape = "";
      this.total = null;
      this.plot = null;
    }

    /** The lines of the chart, in the order of drawing. */
    lines(times, series, picked, nodeCount) {
      if (this.plan.lines) {
        return this.plan.lines.filter((line) => series[line.name]).map((line) => ({
          label: line.label, color: line.color, width: 2,
          values: series[line.name].mean.map((v) => (known(v) ? Math.min(v, this.plan.most) : v)),
        }));
      }
      const of = series[this.plan.id] || {mean: times.map(() => null), min: times.map(() => null), max: times.map(() => null)};
      const lines = [];
      const which = nodeCount > MOST_SUMMED ? "mean" : this.plan.of;
      this.total = which === this.plan.of ? null : of.sum;
      const several = of.nodes && Object.keys(of.nodes).length > 0;
      if (which === "mean") {
        lines.push({label: "least", color: "", width: 0, values: of.min});
        lines.push({label: "most", color: "", width: 0, values: of.max, band: true});
      }
      for (const {id, name, color} of picked) {
        if (of.nodes?.[id]) lines.push({label: name, color, width: 1, values: of.nodes[id]});
      }
      lines.push({
        label: which === "sum" ? "all nodes" : "mean", color: several ? "--text" : "--c1",
        width: 2, values: of[which],
      });
      return lines;
    }

    /** diverged: since when a node's loss has not been a number, by its id. */
    show(times, series, picked, nodes, over, diverged) {
      this.bad = this.plan.id === "loss" ? badLosses(nodes, diverged) : "";
      this.good = nodes.filter((node) => !tfos.badLoss(node) && known(node.metrics.loss)).length;
      this.box.classList.toggle("bad", Boolean(this.bad));
      const lines = this.lines(times, series, picked, nodes.length);
      this.times = times;
      this.those = this.plan.names ? nodes.filter((node) => !tfos.hasEnded(node) && node.metrics[this.plan.id] > 0) : [];
      this.over = over;
      const shape = JSON.stringify(lines.map((line) => [line.label, line.color]));
      const data = [times, ...lines.map((line) => line.values)];
      this.drawn = lines;
      if (shape !== this.shape || !this.plot) {
        this.shape = shape;
        this.make(lines, data);
      } else {
        this.plot.setData(data);
      }
      this.read(null);
    }

    make(lines, data) {
      if (this.plot) this.plot.destroy();
      const axis = {
        stroke: colorOf("--quiet"), grid: {stroke: colorOf("--grid"), width: 1},
        ticks: {stroke: colorOf("--grid"), width: 1}, font: FONT,
      };
      const bands = [];
      lines.forEach((line, i) => {
        if (line.band) bands.push({series: [i + 1, i], fill: colorOf("--band")});
      });
      this.plot = new uPlot({
        width: Math.max(200, this.place.clientWidth || 320), height: HEIGHT,
        // Half of a label of the time may stand beside the last moment.
        legend: {show: false}, padding: [6, (plot) => 2 + Math.ceil(widest(plot.ctx, ["00:00:00"]) / 2), 0, 0],
        cursor: {sync: {key: this.sync}, y: false, points: {show: false}, drag: {x: false, y: false}},
        scales: {y: {range: (plot, least, most) => this.range(least, most)}},
        axes: [{...axis, size: 28, space: 70, values: (plot, ticks, axisAt, space, step) =>
                 ticks.map((v) => tfos.timeLabel(new Date(1000 * v), step, this.span()))},
               {...axis, size: (plot, labels) => Math.max(40, MARK + widest(plot.ctx, labels || [])), values: (plot, ticks) => ticks.map((v) => this.plan.unit(v))}],
        bands,
        series: [{}, ...lines.map((line) => ({
          label: line.label, stroke: line.color ? colorOf(line.color) : undefined,
          width: line.width, points: {show: false}, spanGaps: true,
        }))],
        hooks: {setCursor: [(plot) => this.read(plot.cursor.idx)]},
      }, data, this.place);
    }

    /** How long the time is that is shown, in seconds. */
    span() {
      return this.times.length ? this.times.at(-1) - this.times[0] : 0;
    }

    /** From zero, except where the curve of a level would then be a line: a loss around 100, for
     *  example. */
    range(least, most) {
      if (this.plan.most) return [0, this.plan.most];
      const named = this.those.map((node) => node.metrics[this.plan.id]).filter(known);
      if (named.length) [least, most] = [0, Math.max(most ?? 0, ...named)];
      if (!known(least) || !known(most)) return [0, 1];
      if (least >= 0 && (!this.plan.level || least < 0.5 * most)) return [0, most * 1.05 || 1];
      const room = (most - least) * 0.1 || Math.abs(most) * 0.1 || 1;
      return [least - room, most + room];
    }

    /** What the heading says: of the moment under the pointer, else of the last one. Once all nodes
     *  have ended, that is the last one that any of them has reported for. */
    read(at) {
      const value = (line) => (known(at) ? line.values[at] : this.over ? last(line.values) : line.values.at(-1));
      const time = known(at) ? `${tfos.moment(new Date(1000 * this.times[at]), this.span())}  ` : "";
      let text;
      if (this.plan.lines) {
        text = this.drawn.map((line) => `${line.label} ${this.plan.unit(value(line))}`).join(", ");
        this.readout.replaceChildren(time, ...this.drawn.map((line) => {
          const dot = element("span", {class: "dot"});
          dot.style.background = `var(${line.color})`;
          return element("span", {class: "part"}, dot, `${line.label} ${this.plan.unit(value(line))}`);
        }));
      } else {
        const bands = this.drawn.filter((line) => line.label === "least" || line.label === "most").map(value);
        text = this.plan.unit(value(this.drawn.at(-1)));
        if (bands.length === 2 && known(bands[0]) && bands[0] !== bands[1]) {
          text += ` (${this.plan.unit(bands[0])} to ${this.plan.unit(bands[1])})`;
        }
        if (!known(at) && this.those.length) text = this.names();
        // It is of no moment that the nodes that have diverged are at.
        if (!known(at) && this.bad) text = text ? `${this.bad}; ${this.good ? "the others" : "last number"} ${text}` : this.bad;
        if (this.total) text = `all ${this.plan.unit(value({values: this.total}))}, each ${text}`;
        this.readout.textContent = time + text;
      }
      if (!known(at)) this.box.setAttribute("aria-label", `${this.plan.title}: ${text}`);
    }

    /** The nodes that have something above zero now, with it. */
    names() {
      const named = this.those.slice(0, MOST_NAMED).map((node) => `${tfos.nodeName(node)} ${this.plan.unit(node.metrics[this.plan.id])}`);
      const left = this.those.length - named.length;
      return named.join(", ") + (left > 0 ? ` and ${left} more` : "");
    }

    resize() {
      const width = Math.max(200, this.place.clientWidth);
      if (this.plot && width !== this.plot.width) this.plot.setSize({width, height: HEIGHT});
    }

    remove() {
      if (this.plot) this.plot.destroy();
      this.box.remove();
    }
  }

  /** All charts. `place`: where they go; `more`: the button that shows those that are left out. */
  tfos.Charts = class {
    constructor(place, more) {
      this.place = place;
      this.more = more;
      this.charts = new Map();
      this.all = false;
      this.latest = null;
      more.addEventListener("click", () => {
        this.all = true;
        this.redraw();
      });
      new ResizeObserver(() => this.charts.forEach((chart) => chart.resize())).observe(place);
      window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
        this.charts.forEach((chart) => { chart.shape = ""; });
        this.redraw();
      });
    }

    redraw() {
      if (this.latest) this.show(...this.latest);
    }

    /** past: an answer of /v1/history. picked: `{id, name, color}` of nodes with curves. nodes: all of
     *  them. */
    show(past, picked, nodes) {
      this.latest = [past, picked, nodes];
      const over = nodes.every(tfos.hasEnded);
      const times = past.times.map((time) => (past.started_ms + time) / 1000);
      const {ofProgram, ofAll} = choose(past.series, nodes.some(tfos.badLoss));
      const left = this.all ? 0 : Math.max(0, ofProgram.length - MOST_OF_PROGRAM);
      const plans = [...ofProgram.slice(0, ofProgram.length - left), ...ofAll];
      this.more.hidden = left === 0;
      this.more.textContent = `Show ${left} more`;
      // A program may call a metric as a chart of several lines is called.
      const keyOf = (plan) => (plan.lines ? plan : plan.id);
      const wanted = new Set(plans.map(keyOf));
      for (const [key, chart] of this.charts) {
        if (wanted.has(key)) continue;
        chart.remove();
        this.charts.delete(key);
      }
      plans.forEach((plan, at) => {
        let chart = this.charts.get(keyOf(plan));
        if (!chart) {
          chart = new Chart(plan, "tfos");
          this.charts.set(keyOf(plan), chart);
        }
        if (this.place.children[at] !== chart.box) this.place.insertBefore(chart.box, this.place.children[at] || null);
        chart.show(times, past.series, picked, nodes, over, past.diverged || {});
      });
    }
  };
})();
