// What the selected node writes, as it comes, and the stacks of its threads at a click.
"use strict";

(() => {
  const {element, number} = tfos;
  const FIRST_LINES = 200;
  const MOST_LINES = 5000;
  const MOST_CHARACTERS = 2_000_000;
  const WAIT_MS = 5000;  // For news, in one request.
  const PAUSE_MS = 250;  // Between two requests: a node that writes all the time costs four a second.
  const RETRY_MS = 3000;
  const LINE = 16;  // Pixels, about.
  const BOTTOM = 8;  // Pixels from the end that still count as the end.

  /** Why a request failed: the words of the answer if there was one, and its number. */
  function refusal(error) {
    if (error instanceof tfos.Refused) return {words: "The key does not open this cluster."};
    if (tfos.isGone(error)) return {words: "The coordinator does not answer."};
    return {status: error.status, words: error.words || error.message};
  }

  /** place: an empty element that is hidden. live: the coordinator. onClose: what is to happen when
   *  somebody closes it. One node at a time; one request for its output at a time, and none while
   *  the tab is hidden or the panel is. */
  tfos.Panel = class {
    constructor(place, live, onClose) {
      Object.assign(this, {place, live, onClose, node: null, process: "", watch: null});
      this.title = element("h2", {id: "panel-title"});
      this.say = element("span", {id: "panel-say", class: "quiet", role: "status"});
      this.toEnd = element("button", {id: "panel-end", type: "button", hidden: true, onclick: () => this.goToEnd()}, "To the end");
      this.ask = element("button", {id: "panel-stack", type: "button", title: "What its threads are doing now", onclick: () => this.askStack()}, "Stack");
      const close = element("button", {id: "panel-close", type: "button", title: "Close (Esc)", onclick: onClose}, "Close");
      this.stackTitle = element("h3", {id: "stack-title"});
      this.stackSay = element("p", {id: "stack-say", role: "status"});
      this.stack = element("pre", {id: "stack", tabindex: 0, "aria-labelledby": "stack-title"});
      this.earlier = element("p", {id: "panel-earlier", class: "quiet", hidden: true});
      // Not live for readers of screens: a node may write a thousand lines a second.
      this.output = element("pre", {id: "output", tabindex: 0, role: "log", "aria-live": "off", "aria-labelledby": "panel-title"});
      this.output.addEventListener("scroll", () => this.drawToEnd());
      place.setAttribute("aria-labelledby", "panel-title");
      place.replaceChildren(
          element("div", {class: "bar"}, this.title, this.say, element("span", {class: "choices"}, this.toEnd, this.ask, close)),
          this.stackSay, this.stackTitle, this.stack, this.earlier, this.output);
      document.addEventListener("visibilitychange", () => (document.hidden ? this.pause() : this.follow()));
      document.addEventListener("keydown", (event) => {
        if (event.key === "Escape" && this.node && !event.target.matches("input")) onClose();
      });
    }

    /** The node that is selected, as /v1/status has it, or nothing. Called again with its news. */
    show(node) {
      const before = this.node;
      this.node = node || null;
      this.place.hidden = !node;
      if (!node) {
        this.pause();
        if (before) this.clear();
        return;
      }
      this.ask.disabled = tfos.hasEnded(node);
      const isOther = before?.node_id !== node.node_id;
      // One that was started again begins to count its output anew. Until its process is there it
      // has no number, and in two containers two may have the same.
      const process = node.pid ? `${node.pid} ${node.host} ${node.executor_id}` : "";
      const isAgain = !isOther && this.process && process && this.process !== process;
      if (isOther || process) this.process = process;
      if (!isOther && !isAgain) return;
      this.pause();
      this.clear();
      this.title.textContent = `Output of ${tfos.nodeName(node)}`;
      if (!before) this.place.scrollIntoView({block: "nearest"});
      this.follow();
    }

    clear() {
      this.stacks?.abort();
      this.stacks = null;
      this.stackSay.textContent = "";
      this.stackTitle.hidden = this.stack.hidden = true;
      this.terminal = new tfos.Output();
      this.after = -1;  // The position behind what is shown.
      this.hasEnded = false;
      this.lines = 0;
      this.characters = 0;
      this.current = document.createTextNode("");
      this.output.replaceChildren(this.current);
      this.earlier.hidden = true;
      this.say.textContent = "";
      this.drawToEnd();
    }

    pause() {
      this.watch?.abort();
      this.watch = null;
    }

    /** Asks again and again until the node has ended. */
    async follow() {
      if (!this.node || this.watch || this.hasEnded || document.hidden) return;
      const watch = new AbortController();
      this.watch = watch;
      while (!watch.signal.aborted && !this.hasEnded) {
        const wanted = this.after < 0 ? `lines=${FIRST_LINES}` : `after=${this.after}&wait_ms=${WAIT_MS}`;
        const path = `v1/output?node=${this.node.node_id}&${wanted}`;
        let pause = PAUSE_MS;
        try {
          const answer = await (await this.live.get(path, tfos.withinTime(watch.signal))).json();
          if (!watch.signal.aborted) this.take(answer);
        } catch (error) {
          if (watch.signal.aborted) return;
          const {status, words} = refusal(error);
          // It goes when the cluster has ended, and takes what agents kept along.
          this.say.textContent = tfos.isGone(error) && tfos.hasEnded(this.node)
            ? `The cluster has ended. The output is in the stderr of executor ${this.node.executor_id} on ${this.node.host}.` : words;
          if (status === 410) this.hasEnded = true;
          pause = RETRY_MS;
        }
        if (!this.hasEnded) await new Promise((resolve) => setTimeout(resolve, pause));
      }
      if (this.watch === watch) this.watch = null;
    }

    take(answer) {
      if (answer.next < this.after) {
        this.clear();  // It is the output of another process.
        return;
      }
      const follows = this.isAtEnd();
      if (this.after < 0 && answer.from > 0) this.drawEarlier();
      if (this.after >= 0 && answer.from > this.after) {
        this.note(`${number(answer.from - this.after)} bytes are gone: the node's agent keeps the last 1 MiB, and less once it has ended`);
      }
      this.after = answer.next;
      this.hasEnded = answer.ended;
      const ended = this.terminal.take(answer.text);
      if (ended.length) {
        const made = document.createDocumentFragment();
        for (const line of ended.slice(-MOST_LINES)) made.append(this.piece(document.createTextNode(`${line}\n`)));
        this.current.before(made);
      }
      this.current.data = this.terminal.line;
      this.trim(follows);
      this.say.textContent = !answer.ended ? (answer.next === 0 ? "It has not written anything yet." : "")
        : answer.next === 0 ? "The node has ended, and has written nothing." : "The node has ended. This is the end of its output.";
      if (follows) this.goToEnd();
      this.drawToEnd();
    }

    /** Counts a line that is to be shown. */
    piece(node) {
      this.lines += 1;
      this.characters += node.textContent.length;
      return node;
    }

    note(text) {
      this.current.before(this.piece(element("span", {class: "note"}, `... ${text} ...\n`)));
    }

    /** Drops the oldest lines above the limits. What a reader looks at stays where it is. */
    trim(follows) {
      const isFull = () => this.lines > MOST_LINES || this.characters > MOST_CHARACTERS;
      if (!isFull()) return;
      const height = follows ? 0 : this.output.scrollHeight;
      while (isFull()) {
        this.lines -= 1;
        this.characters -= this.output.firstChild.textContent.length;
        this.output.firstChild.remove();
      }
      if (!follows) this.output.scrollTop -= height - this.output.scrollHeight;
      this.drawEarlier();
    }

    drawEarlier() {
      this.earlier.hidden = false;
      this.earlier.textContent = `Earlier lines are not shown. "tfos logs ${tfos.nodeName(this.node)} --lines N" has more, and the executor's log has all.`;
    }

    isAtEnd() {
      return this.output.scrollHeight - this.output.scrollTop - this.output.clientHeight <= BOTTOM;
    }

    goToEnd() {
      this.output.scrollTop = this.output.scrollHeight;
    }

    drawToEnd() {
      this.toEnd.hidden = this.isAtEnd();
    }

    /** Its stack comes first, with the latest call last. */
    showMainThread(text) {
      const end = text.indexOf("\n\n") > 0 ? text.indexOf("\n\n") : text.trimEnd().length;
      const last = document.createRange();
      last.setStart(this.stack.firstChild, Math.max(0, end - 1));
      last.setEnd(this.stack.firstChild, end);
      const below = last.getBoundingClientRect().bottom - this.stack.getBoundingClientRect().bottom;
      this.stack.scrollTop += below + LINE;
    }

    /** Once per click, and not again before the answer. */
    async askStack() {
      if (this.stacks) return;
      const asked = new AbortController();
      this.stacks = asked;
      this.stackSay.textContent = "Asking for the stacks ...";
      const path = `v1/stacks?node=${this.node.node_id}`;
      let words = "";
      try {
        const {text} = await (await this.live.get(path, tfos.withinTime(asked.signal))).json();
        if (asked.signal.aborted) return;
        this.stackTitle.textContent = `Stacks at ${tfos.clock(new Date())}`;
        this.stack.textContent = text;
        this.stackTitle.hidden = this.stack.hidden = false;
        this.showMainThread(text);
      } catch (error) {
        if (asked.signal.aborted) return;
        ({words} = refusal(error));  // Earlier stacks stay, with their time.
      }
      this.stackSay.textContent = words;
      this.stacks = null;
    }
  };
})();
