/**
 * Zooming and reading values, with one cursor for pointer and keyboard.
 */

import { BAND, MEAN, lookOfPlace, nearest } from "./curve.mjs";
import { lossText, timeText, valueText, zoomed } from "./axes.mjs";

const DRAG_FROM = 8; // pixels; less is a click
const HINT = "Point to read values; drag to zoom. Keys: arrows, + and −; Escape shows all.";

/** Base class of the chart that reads values; chart.mjs defines `drawn`, `plot`, `shown()` and so on. */
export class Reader {
  constructor() {
    Object.assign(this, { cursor: null, zoom: null, drag: null });
  }

  listenForReading(on) {
    on(this.canvas, "pointerdown", (event) => this.press(event));
    on(this.canvas, "pointermove", (event) => this.pointAt(event.offsetX));
    on(this.canvas, "pointerup", () => this.release());
    on(this.canvas, "pointercancel", () => this.release(false));
    on(this.canvas, "dblclick", () => this.show(null));
    on(this.canvas, "keydown", (event) => this.key(event));
    for (const end of ["pointerleave", "blur"]) on(this.canvas, end, () => this.moveTo(null));
  }

  /** Show this range of x; null shows all. */
  show(range) {
    this.zoom = range;
    this.drag = null;
    this.schedule();
  }

  press(event) {
    if (event.button !== 0 || !this.plot?.x) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = { from: event.offsetX, to: event.offsetX };
  }

  release(isMeant = true) {
    const drag = this.drag;
    this.drag = null;
    if (!drag || !isMeant || Math.abs(drag.to - drag.from) < DRAG_FROM) return this.schedule();
    this.show([drag.from, drag.to].map((pixel) => this.plot.at(pixel)).sort((a, b) => a - b));
  }

  pointAt(pixel) {
    if (!this.plot?.x) return;
    const { left, right } = this.plot;
    if (this.drag) this.drag.to = Math.max(left, Math.min(right, pixel));
    this.moveTo(this.plot.at(pixel));
  }

  /** The line that the cursor follows: the mean, or the longest one. */
  reference() {
    const shown = this.shown().filter((id) => this.drawn.has(id));
    if (shown.includes(MEAN)) return MEAN;
    const ids = this.hasBand ? this.workers : shown;
    const length = (id) => this.drawn.get(id).length;
    return ids.reduce((a, b) => (a === undefined || length(b) > length(a) ? b : a), undefined);
  }

  key(event) {
    const line = this.drawn.get(this.reference());
    if (!line?.length || !this.plot?.x || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = line.length - 1;
    const page = Math.max(1, Math.round(line.length / 10));
    const now = this.cursor === null ? last : nearest(line, this.cursor);
    const { x } = this.plot;
    const factor = { "+": 0.5, "=": 0.5, "-": 2 }[event.key];
    const next = {
      ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1,
      PageDown: now - page, PageUp: now + page, Home: 0, End: last, Escape: null,
    }[event.key];
    if (next === undefined && !factor) return;
    event.preventDefault();
    event.stopPropagation();
    if (factor) this.show(zoomed(x, factor, this.cursor ?? (x[0] + x[1]) / 2, this.whole));
    else if (next === null && this.zoom) this.show(null);
    else this.moveTo(next === null ? null : line.x[Math.min(last, Math.max(0, next))]);
  }

  moveTo(x) {
    if (x === this.cursor && !this.drag) return;
    this.cursor = x;
    this.schedule();
  }

  drawCursor(plot) {
    const line = this.cursor === null ? undefined : this.drawn.get(this.reference());
    if (!line?.length) return;
    const x = line.x[nearest(line, this.cursor)];
    if (x < plot.x[0] || x > plot.x[1]) return;
    plot.cursor(x);
    for (const [id, at, value] of this.valuesAt(x)) {
      if (id !== BAND) plot.point(at, value, this.lookOf(id));
    }
  }

  /** [id, x, value] of the point of each line nearest to `x`; for the band, value is [low, high]. */
  valuesAt(x) {
    const found = (id) => {
      const line = this.drawn.get(id);
      const i = nearest(line, x);
      return [id, line.x[i], line.y[i]];
    };
    const workers = this.hasBand ? this.workers.map((id) => found(id)[2]).filter(Number.isFinite) : [];
    return this.shown().flatMap((id) => {
      if (this.drawn.has(id)) return [found(id)];
      if (!workers.length) return [];
      if (id === BAND) return [[id, x, [Math.min(...workers), Math.max(...workers)]]];
      return [[id, x, workers.reduce((a, b) => a + b) / workers.length]];
    });
  }

  /** Text of the values at the cursor, for the read-out and for screen readers. */
  describe() {
    const id = this.reference();
    const line = this.drawn.get(id);
    const summary = this.model.get("summary");
    const what = this.quantity === 0 ? "Loss curve" : `Curve of the ${this.shows.label}`;
    this.canvas.setAttribute("aria-label", `${what}. ${summary}. ${HINT}`);
    const steps = this.store.lines.get(id)?.x;
    const last = line?.length ? line.length - 1 : -1;
    const at = last >= 0 && this.cursor !== null ? nearest(line, this.cursor) : last;
    const step = last < 0 ? 0 : Math.round(steps[at]); // a mean lies between steps
    this.canvas.setAttribute("aria-valuemax", String(last < 0 ? 0 : Math.round(steps[last])));
    let text = "";
    if (last >= 0) {
      const inWords = this.quantity === 0 ? lossText : valueText;
      const values = this.valuesAt(line.x[at]).map(([id, x, value]) => {
        if (id === BAND) return `workers ${inWords(value[0])} to ${inWords(value[1])}`;
        const elsewhere = lookOfPlace(id).isValidation && x !== line.x[at];
        return `${this.nameOf(id)} ${inWords(value)}${elsewhere ? ` (${this.place(x)})` : ""}`;
      });
      const unit = this.kind === "step" ? "" : `, ${this.place(line.x[at])}`;
      const how = this.smoothing > 0 ? ", smoothed" : "";
      text = `Step ${step.toLocaleString("en-US")}${unit}${how}: ${values.join(", ")}`;
    }
    this.canvas.setAttribute("aria-valuenow", String(step));
    this.canvas.setAttribute("aria-valuetext", text || "no values yet");
    this.readout.textContent = this.cursor !== null ? text : last >= 0 ? HINT : "";
  }

  /** Format a value of x. */
  place(x) {
    if (this.kind === "time") return `after ${timeText(x, this.whole[1] - this.whole[0])}`;
    return this.kind === "epoch" ? `${x.toFixed(1)} epochs` : `step ${x.toLocaleString("en-US")}`;
  }
}
