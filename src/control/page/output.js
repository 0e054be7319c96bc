// What a node writes, as a terminal would show it: lines that end, and the one that does not yet.
"use strict";

(() => {
  const MOST_LINE = 16384;  // Characters. A longer line goes on in the next one.
  const MOST_SEQUENCE = 256;
  const ESCAPE = "\u001b";
  // Whole sequences: with parameters (colours, moves), with a text (titles), and short ones.
  const SEQUENCE = /^\u001b(?:\[([0-?]*)[ -/]*([@-~])|[\]PX^_][^\u0007\n\u001b]*(?:\u0007|\u001b\\)|[ -/]*[0-OQ-WYZ\\`-~])/;
  const BEGINNING = /^\u001b(?:\[[0-?]*[ -/]*|[\]PX^_][^\u0007\n\u001b]*\u001b?|[ -/]*)$/;
  const CONTROL = /^[\u0000-\u0008\n-\u001f\u007f-\u009f]/;  // All but the tabulator.
  const PART = /[^\u0000-\u0008\n-\u001f\u007f-\u009f]+|[^]/g;

  /** Takes an output piece by piece. A progress bar writes over its line again and again, by
   *  carriage returns and backspaces: its last state counts. Colours and all else that a terminal
   *  obeys are left out, except for the end of a line that is deleted. */
  tfos.Output = class {
    constructor() {
      this.line = "";  // The one that has not ended.
      this.at = 0;  // Where the next character goes.
      this.rest = "";  // A sequence that has not ended.
    }

    /** Returns the lines that have ended with this text. */
    take(text) {
      const ended = [];
      text = this.rest + text;
      this.rest = "";
      PART.lastIndex = 0;
      for (let part = PART.exec(text); part; part = PART.exec(text)) {
        const [found] = part;
        if (found === ESCAPE) {
          const left = text.slice(part.index, part.index + MOST_SEQUENCE);
          const sequence = SEQUENCE.exec(left);
          if (sequence) {
            if (sequence[2] === "K") this.erase(sequence[1]);
            PART.lastIndex = part.index + sequence[0].length;
          } else if (left.length < MOST_SEQUENCE && BEGINNING.test(left)) {
            this.rest = left;
            return ended;
          }
        } else if (found === "\n") {
          ended.push(this.end());
        } else if (found === "\r") {
          this.at = 0;
        } else if (found === "\b") {
          this.at = Math.max(0, this.at - 1);
        } else if (!CONTROL.test(found)) {
          this.write(found);
          while (this.line.length > MOST_LINE) ended.push(this.cut());
        }
      }
      return ended;
    }

    write(text) {
      this.line = this.line.slice(0, this.at) + text + this.line.slice(this.at + text.length);
      this.at += text.length;
    }

    erase(which) {
      if (which === "2") this.line = "";
      else if (which === "" || which === "0") this.line = this.line.slice(0, this.at);
      this.at = Math.min(this.at, this.line.length);
    }

    /** What a terminal would have written over with spaces is not there any more. */
    end() {
      const line = this.line.trimEnd();
      this.line = "";
      this.at = 0;
      return line;
    }

    cut() {
      const line = this.line.slice(0, MOST_LINE);
      this.line = this.line.slice(MOST_LINE);
      this.at = Math.max(0, this.at - MOST_LINE);
      return line;
    }
  };
})();
