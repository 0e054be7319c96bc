// The table of nodes. Of thousands only those that are in sight are in the document.
"use strict";

(() => {
  const {element, known, number, bytes} = tfos;
  const ROW_HEIGHT = 31;  // As page.css has it, with the line below.
  const ROWS_IN_RESERVE = 12;
  const MOST_PICKED = 8;

  const metric = (name) => (node) => node.metrics[name];
  const metricNow = (name) => (node) => (tfos.hasEnded(node) ? undefined : node.metrics[name]);
  const withState = (node, detail) => {
    const bad = tfos.badLoss(node);
    const why = [bad && `loss ${bad}`, detail, node.leaving].filter((text) => text).join("; ");
    return node.state + (why ? ` (${why})` : "");
  };
  const stateText = (node) => withState(node, node.detail);
  /** Without what the failure above says already. */
  const shortState = (node) => withState(node, node.brief ?? node.detail);

  /** The class of a node's state, as page.css has it: healthy ones alone look healthy. So does one
   *  that trains with the last of its rows, which may be most of the training. */
  function stateStyle(node) {
    if (tfos.badLoss(node)) return "diverged";
    if (tfos.isSilent(node) || tfos.isStuck(node)) return "silent";
    return node.state === "draining" && !node.detail?.startsWith("stopping") ? "running" : node.state;
  }

  function shareCell(share) {
    const cell = element("span", {}, tfos.percent(share));
    if (known(share)) {
      const bar = element("i");
      bar.style.width = `${Math.round(46 * share)}px`;
      cell.append(element("span", {class: "share", "aria-hidden": "true"}, bar));
    }
    return cell;
  }

  const NODE = {id: "name", title: "Node", value: (node) => node.node_id, text: tfos.nodeName};
  const count = (id, title, more = {}) => ({id, title, value: metric(id), text: (n) => number(n.metrics[id]), number: true, total: true, summed: true, ...more});
  const VIEWS = {
    training: [
      NODE,
      {id: "host", title: "Host", value: (n) => n.host, text: (n) => n.host, minor: true},
      {id: "state", title: "State", value: stateText, text: shortState, whole: stateText, long: true, state: true},
      {id: "epoch", title: "Epoch", value: metric("epoch"), text: (n) => number(n.metrics.epoch), number: true, ifAny: true, minor: true},
      {id: "step", title: "Step", value: metric("step"), text: (n) => number(n.metrics.step), number: true},
      {id: "loss", title: "Loss", value: metric("loss"), text: (n) => number(n.metrics.loss), number: true},
      count("rows", "Rows read", {minor: true}),
      {id: "rate", title: "Rows/s", value: (n) => n.rate, text: (n) => number(known(n.rate) ? Math.round(n.rate) : undefined), number: true, total: true},
      {id: "waits", title: "Waits for rows", value: (n) => n.waits, cell: (n) => shareCell(n.waits), number: true, minor: true},
      {id: "node-waits", title: "Waits for nodes", value: metricNow("share_waiting_for_nodes"), cell: (n) => shareCell(metricNow("share_waiting_for_nodes")(n)), number: true, minor: true, ifAny: true},
      {id: "queue", title: "Queue", value: metricNow("feed_queued_bytes"), text: (n) => bytes(metricNow("feed_queued_bytes")(n)), number: true, minor: true, total: bytes},
    ],
    rows: [
      NODE,
      count("items_delivered", "Delivered", {items: true}), count("rows", "Read"), count("items_unread", "Unread", {items: true}),
      count("items_replayed", "Replayed", {items: true, minor: true}), count("rows_dropped", "Dropped", {minor: true}),
      count("rows_passed_on", "Passed on", {minor: true}), count("rows_taken_over", "Taken over", {minor: true}),
      count("rows_read_elsewhere", "Read elsewhere", {minor: true}),
    ],
    machine: [
      NODE,
      {id: "host", title: "Host", value: (n) => n.host, text: (n) => n.host || "", long: true},
      {id: "executor", title: "Executor", value: (n) => n.executor_id, text: (n) => n.executor_id || "", number: true, minor: true},
      {id: "pid", title: "Process", value: (n) => n.pid, text: (n) => (n.pid ? String(n.pid) : ""), number: true, minor: true},
      {id: "gpus", title: "GPUs", value: (n) => n.gpus.join(), text: (n) => n.gpus.join(", "), minor: true},
      {id: "cpu", title: "CPU cores", value: (n) => n.cpu, text: (n) => (known(n.cpu) ? n.cpu.toFixed(2) : ""), number: true, total: (v) => v.toFixed(2)},
      {id: "rss", title: "Memory", value: metricNow("rss_bytes"), text: (n) => bytes(metricNow("rss_bytes")(n)), number: true, total: bytes},
      {id: "gpu", title: "GPU use", value: metricNow("gpu_utilization"), text: (n) => tfos.percent(metricNow("gpu_utilization")(n)), number: true, ifAny: true},
      {id: "gpu-memory", title: "GPU memory", value: metricNow("gpu_memory_bytes"), text: (n) => bytes(metricNow("gpu_memory_bytes")(n)), number: true, ifAny: true},
      {id: "address", title: "Address", value: (n) => n.address, text: (n) => (n.address ? `${n.address}:${n.port}` : ""), minor: true},
    ],
  };

  function compare(a, b) {
    const unknown = (value) => value === undefined || value === null || value === "";
    if (unknown(a) || unknown(b)) return unknown(a) - unknown(b);
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  }

  /** parts: the elements `section`, `table`, `scroller`, `filter`, `shown`, `noMatch`, `legend`, `details` and the buttons
   *  `views`. `onPicked` is called when other nodes are to have curves. */
  tfos.Nodes = class {
    constructor(parts, onPicked) {
      Object.assign(this, parts, {onPicked});
      this.nodes = [];
      this.rows = [];
      this.view = "training";
      this.order = {id: "name", down: false};
      this.picked = [];  // Node ids: the place in it is the number of the color.
      this.chosen = false;  // Whether somebody has picked nodes.
      this.open = null;
      this.focused = 0;
      this.scroller.addEventListener("scroll", () => requestAnimationFrame(() => this.draw()));
      this.filter.addEventListener("input", () => this.arrange());
      this.filter.addEventListener("keydown", (event) => this.onFilterKey(event));
      this.section.addEventListener("keydown", (event) => this.onOuterKey(event));
      document.addEventListener("keydown", (event) => {
        if (event.target === document.body) this.onOuterKey(event);
      });
      for (const button of this.views) {
        button.addEventListener("click", () => {
          this.view = button.dataset.view;
          for (const other of this.views) other.setAttribute("aria-pressed", String(other === button));
          this.head = "";
          this.arrange();
        });
      }
      this.table.tBodies[0].addEventListener("click", (event) => this.pickRow(event.target.closest("tr.node")));
      this.table.tBodies[0].addEventListener("keydown", (event) => this.onKey(event));
      new ResizeObserver(() => this.draw()).observe(this.scroller);
    }

    /** nodes: of /v1/status, each with its `metrics`, `before`, `rate`, `waits` and `cpu`. unit: what an item
     *  of the feed is. */
    show(nodes, unit) {
      this.nodes = nodes;
      this.unit = unit;
      if (!this.chosen && nodes.length <= MOST_PICKED) this.picked = nodes.map((node) => node.node_id);
      this.arrange();
      this.drawLegend();
      this.drawDetails();
    }

    /** `{id, name, color}` of the nodes that have curves. */
    curves() {
      return this.picked.map((id, at) => ({id, at, node: this.nodes.find((node) => node.node_id === id)}))
          .filter(({node}) => node)
          .map(({id, at, node}) => ({id, name: tfos.nodeName(node), color: `--c${at + 1}`}));
    }

    columns() {
      return VIEWS[this.view].filter((column) => !column.ifAny || this.nodes.some((node) => known(column.value(node))));
    }

    arrange() {
      const wanted = this.filter.value.trim().toLowerCase();
      const columns = this.columns();
      const by = columns.find((column) => column.id === this.order.id) || columns[0];
      const sign = this.order.down ? -1 : 1;
      this.rows = this.nodes.filter((node) => !wanted ||
          `${tfos.nodeName(node)} ${node.host || ""} ${stateText(node)}`.toLowerCase().includes(wanted));
      this.rows.sort((a, b) => sign * compare(by.value(a), by.value(b)) || a.node_id - b.node_id);
      this.noMatch.hidden = !wanted || this.rows.length > 0;
      tfos.setText(this.shown, wanted ? `${this.rows.length} of ${this.nodes.length}` : "");
      this.drawHead(columns, by);
      this.draw();
      this.drawTotals(columns);
    }

    drawHead(columns, by) {
      const title = (column) => column.title + (column.items && this.unit !== "rows" ? ` (${this.unit})` : "");
      const head = JSON.stringify([columns.map(title), by.id, this.order.down]);
      if (head === this.head) return;
      this.head = head;
      const kept = document.activeElement?.dataset?.sort;
      const cells = columns.map((column) => element("th", {
        scope: "col", class: this.classOf(column),
        "aria-sort": column.id === by.id ? (this.order.down ? "descending" : "ascending") : "none",
      }, element("button", {type: "button", "data-sort": column.id, onclick: () => {
        this.order = {id: column.id, down: this.order.id === column.id ? !this.order.down : Boolean(column.number)};
        this.arrange();
      }}, title(column))));
      this.table.tHead.replaceChildren(element("tr", {}, ...cells));
      if (kept) this.table.tHead.querySelector(`[data-sort="${kept}"]`)?.focus();
    }

    classOf(column) {
      return ["number", "minor", "long"].filter((name) => column[name]).join(" ");
    }

    /** The rows in sight, and empty room for the others. */
    draw() {
      const body = this.table.tBodies[0];
      const height = this.scroller.clientHeight || 400;
      const from = Math.max(0, Math.floor(this.scroller.scrollTop / ROW_HEIGHT) - ROWS_IN_RESERVE);
      const to = Math.min(this.rows.length, from + Math.ceil(height / ROW_HEIGHT) + 2 * ROWS_IN_RESERVE);
      const columns = this.columns();
      const focused = body.contains(document.activeElement) ? document.activeElement.dataset.node : undefined;
      const made = [];
      if (from > 0) made.push(this.spacer(from, columns.length));
      for (let at = from; at < to; at += 1) made.push(this.row(this.rows[at], at, columns));
      if (to < this.rows.length) made.push(this.spacer(this.rows.length - to, columns.length));
      this.place(body, made);
      this.table.setAttribute("aria-rowcount", String(this.rows.length + 1));
      if (focused !== undefined) body.querySelector(`[data-node="${focused}"]`)?.focus({preventScroll: true});
    }

    /** Rows of nodes that are there already stay the same elements. */
    place(body, made) {
      const there = new Map([...body.querySelectorAll("tr.node")].map((row) => [row.dataset.node, row]));
      const rows = made.map((row) => {
        const old = there.get(row.dataset.node);
        if (old) tfos.become(old, row);
        return old || row;
      });
      for (const old of [...body.children]) if (!rows.includes(old)) old.remove();
      rows.forEach((row, at) => {
        if (body.children[at] !== row) body.insertBefore(row, body.children[at] || null);
      });
    }

    spacer(rows, columns) {
      const cell = element("td", {colspan: columns});
      cell.style.height = `${rows * ROW_HEIGHT}px`;
      return element("tr", {class: "spacer", "aria-hidden": "true"}, cell);
    }

    row(node, at, columns) {
      const color = this.picked.indexOf(node.node_id);
      const cells = columns.map((column, place) => {
        const content = column.cell ? column.cell(node) : column.text(node) ?? "";
        const cell = element("td", {class: `${this.classOf(column)} ${column.state ? stateStyle(node) : ""}`.trim()}, content);
        if (column.long) cell.title = (column.whole || column.text)(node);
        if (place === 0 && color >= 0) cell.prepend(this.dot(color));
        return cell;
      });
      return element("tr", {
        class: color >= 0 ? "node picked" : "node", "data-node": node.node_id, "data-at": at,
        "aria-rowindex": at + 2, "aria-selected": String(color >= 0), tabindex: at === Math.min(this.focused, this.rows.length - 1) ? 0 : -1,
      }, ...cells);
    }

    dot(color) {
      const dot = element("span", {class: "dot"});
      dot.style.background = `var(--c${color + 1})`;
      return dot;
    }

    drawTotals(columns) {
      if (this.rows.length < 2 || !columns.some((column) => column.total)) {
        this.table.tFoot?.remove();
        return;
      }
      const cells = columns.map((column, place) => {
        if (place === 0) return element("td", {}, "All");
        const before = (node) => (column.summed ? node.before[column.id] : undefined);
        const values = column.total ? this.rows.flatMap((node) => [column.value(node), before(node)]).filter(known) : [];
        const sum = values.reduce((all, value) => all + value, 0);
        const text = typeof column.total === "function" ? column.total(sum) : number(Math.round(sum));
        return element("td", {class: this.classOf(column)}, values.length ? text : "");
      });
      tfos.renew(this.table.createTFoot(), element("tr", {}, ...cells));
    }

    /** Enter and the arrows lead from the filter to the nodes that it has left. */
    onFilterKey(event) {
      if (event.key === "Escape") {
        event.preventDefault();
        this.filter.value = "";
        this.arrange();
        this.filter.blur();
      } else if (event.key === "ArrowDown" || event.key === "Enter") {
        event.preventDefault();
        this.focus(0);
      }
    }

    /** Where nothing has the focus, or the nodes as a whole, arrow down and Enter lead to the row that had it
     *  last. */
    onOuterKey(event) {
      const isOuter = [document.body, this.section, this.scroller].includes(event.target);
      if (!isOuter || !["ArrowDown", "Enter"].includes(event.key) || this.rows.length === 0) return;
      event.preventDefault();
      this.focus(Math.min(this.focused, this.rows.length - 1));
      this.scroller.scrollIntoView({block: "nearest"});
    }

    onKey(event) {
      const row = event.target.closest("tr.node");
      if (!row) return;
      const at = Number(row.dataset.at);
      const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW_HEIGHT) - 3);
      const to = {ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.rows.length - 1}[event.key];
      if (to !== undefined) {
        event.preventDefault();
        this.focus(Math.min(Math.max(to, 0), this.rows.length - 1));
      } else if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        this.pickRow(row);
      }
    }

    focus(at) {
      this.focused = at;
      const top = at * ROW_HEIGHT;
      const room = this.scroller.clientHeight - 3 * ROW_HEIGHT;
      if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
      if (top > this.scroller.scrollTop + room) this.scroller.scrollTop = top - room;
      this.draw();
      this.table.tBodies[0].querySelector(`[data-at="${at}"]`)?.focus({preventScroll: true});
    }

    pickRow(row) {
      if (!row) return;
      const id = Number(row.dataset.node);
      this.focused = Number(row.dataset.at);
      this.chosen = true;
      if (this.open === id && this.picked.includes(id)) {
        this.drop(id);
        return;
      }
      this.open = id;
      if (!this.picked.includes(id)) this.picked = [...this.picked, id].slice(-MOST_PICKED);
      this.changed();
    }

    drop(id) {
      this.chosen = true;
      this.picked = this.picked.filter((other) => other !== id);
      if (this.open === id) this.open = null;
      this.changed();
    }

    /** The node whose details are shown, if there is one. */
    opened() {
      return this.nodes.find((node) => node.node_id === this.open);
    }

    /** Shows the details of no node. Its row is where the keyboard goes on. */
    close() {
      const at = this.rows.findIndex((node) => node.node_id === this.open);
      this.open = null;
      this.changed();
      if (at >= 0) this.focus(at);
      else this.scroller.focus();
    }

    changed() {
      this.draw();
      this.drawLegend();
      this.drawDetails();
      this.onPicked();
    }

    drawLegend() {
      const curves = this.curves();
      const isMany = this.nodes.length > MOST_PICKED;
      const mark = JSON.stringify([curves, isMany]);
      if (this.legend.dataset.mark === mark) return;
      this.legend.dataset.mark = mark;
      const all = element("li", {class: "all"}, element("span", {class: "dot"}), isMany ? "mean" : "all nodes, or their mean");
      const made = curves.map(({id, name}, at) => element("li", {}, element("button", {
        type: "button", title: "Hide its curves", onclick: () => this.drop(id),
      }, this.dot(at), name)));
      this.legend.replaceChildren(...(made.length ? [all, ...made] : []));
    }

    drawDetails() {
      const node = this.opened();
      this.details.hidden = !node;
      if (!node) return;
      const facts = {
        host: node.host, address: node.address && `${node.address}:${node.port}`, executor: node.executor_id,
        "process id": node.pid || "", "agent's process id": node.agent_pid || "", GPUs: node.gpus.join(", "),
        "in this state for": tfos.duration(node.since_ms),
      };
      // A program may call a metric as a fact is called, and takes none away.
      const list = [...Object.entries(facts), ...Object.entries(node.metrics)].filter(([, value]) => value !== "" && value !== null && value !== undefined)
          .map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {},
              /_bytes$/.test(name) ? bytes(value) : /process id/.test(name) ? String(value) : number(value))));
      // Not all of it is live: readers of screens would read each number every two seconds.
      tfos.renew(this.details, element("div", {"aria-live": "polite"},
          element("strong", {}, `${tfos.nodeName(node)} `), element("span", {class: stateStyle(node)}, shortState(node))),
          element("dl", {}, ...list));
    }
  };
})();
