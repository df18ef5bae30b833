/**
 * The chart of a run: one 2D canvas, drawn at most once a frame and only while somebody looks.
 * Python's side is `_loss_chart.py`, which joins this file with curve.mjs into one module.
 */

import { CurveStore, EPOCH, MEAN, VALIDATION, decimate, extent, lineName, linearTicks, logTicks, lookOfPlace, lossText, nearest, tickText, valueText, withBand, workerOf } from "./curve.mjs";

// Okabe and Ito's colours, safe for colour-blind readers; each also has a marker of its own.
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7"];
const MARKERS = ["circle", "square", "triangle", "diamond", "cross", "plus"];
const VALIDATION_COLOUR = "#D55E00";
const GOOD = "#009E73";
const ASK_AGAIN_MS = 1500;
const MARGIN = { top: 24, right: 14, bottom: 34, left: 56 };

/** One factory call per model; its views share the store. */
export default () => {
  const store = new CurveStore();
  const views = new Set();
  const ask = (model) => model.send({ kind: "hello" });
  return {
    initialize({ model }) {
      model.on("msg:custom", (content, buffers) => {
        if (views.size === 0) return store.forget();
        const next = store.receive(content, buffers?.[0] ?? new ArrayBuffer(0));
        if (next === "ask") ask(model);
        if (next === "draw") for (const view of views) view.schedule();
      });
    },
    render({ model, el }) {
      const view = new ChartView(model, el, store);
      views.add(view);
      // Asked again until it is answered: right after a reload a message can be lost while the page
      // and the kernel find each other, and a run that has ended sends nothing more by itself.
      const askIfIncomplete = () => store.isComplete || ask(model);
      askIfIncomplete();
      const again = setInterval(askIfIncomplete, ASK_AGAIN_MS);
      return () => {
        clearInterval(again);
        views.delete(view);
        view.dispose();
        if (views.size === 0) store.forget();
      };
    },
  };
};

class ChartView {
  constructor(model, el, store) {
    Object.assign(this, { model, store, cursor: null, hidden: new Set(), legendOf: "", frame: 0 });
    el.classList.add("sparkwright-chart");
    el.dataset.lmSuppressShortcuts = "true"; // JupyterLab's command mode eats letters and arrows
    el.innerHTML = `
      <div class="sparkwright-chart-head">
        <div class="sparkwright-legend" role="group" aria-label="Lines shown"></div>
        <select class="sparkwright-choice" aria-label="What the curve shows"></select>
        <button type="button" class="sparkwright-toggle" aria-pressed="false">Log scale</button>
      </div>
      <canvas tabindex="0" role="slider" aria-valuemin="0"></canvas>
      <div class="sparkwright-readout"></div>
      <div class="sparkwright-note" role="note"></div>`;
    [this.legend, this.choice, this.logButton, this.canvas, this.readout, this.note] = [
      ".sparkwright-legend", "select", ".sparkwright-toggle", "canvas", ".sparkwright-readout",
      ".sparkwright-note",
    ].map((selector) => el.querySelector(selector));
    this.el = el;
    this.offered = "";
    this.listen();
    this.schedule();
  }

  listen() {
    this.aborter = new AbortController();
    const { signal } = this.aborter;
    const schedule = () => this.schedule();
    this.logButton.addEventListener("click", () => {
      this.model.set("log_scale", !this.model.get("log_scale"));
      this.model.save_changes();
    }, { signal });
    this.choice.addEventListener("change", () => {
      this.model.set("quantity", Number(this.choice.value));
      this.model.save_changes();
    }, { signal });
    // The notebook would take the arrows for itself, to go to another cell.
    this.choice.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
    }, { signal });
    this.canvas.addEventListener("pointermove", (event) => this.pointAt(event.offsetX), { signal });
    this.canvas.addEventListener("pointerleave", () => this.moveTo(null), { signal });
    this.canvas.addEventListener("blur", () => this.moveTo(null), { signal });
    this.canvas.addEventListener("keydown", (event) => this.key(event), { signal });
    const changes = [
      "change:log_scale", "change:quantity", "change:quantities", "change:summary", "change:line_names",
    ];
    for (const change of changes) this.model.on(change, schedule);
    const size = new ResizeObserver(schedule);
    size.observe(this.canvas);
    const theme = new MutationObserver(schedule);
    for (const node of [document.documentElement, document.body]) {
      theme.observe(node, { attributes: true });
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", schedule, { signal });
    this.dispose = () => {
      cancelAnimationFrame(this.frame);
      this.aborter.abort();
      size.disconnect();
      theme.disconnect();
      for (const change of changes) this.model.off(change, schedule);
    };
  }

  /** Draw in the next frame; asking twice before it draws once. A hidden tab gets no frames. */
  schedule() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    const ratio = window.devicePixelRatio || 1;
    const [pixelWidth, pixelHeight] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== pixelWidth || this.canvas.height !== pixelHeight) {
      [this.canvas.width, this.canvas.height] = [pixelWidth, pixelHeight];
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const style = getComputedStyle(this.el);
    this.ink = style.color;
    this.font = style.fontFamily;
    this.quantity = this.model.get("quantity");
    this.offer();
    this.showLegend();
    this.layOut(width, height);
    this.drawAxes(context);
    if (this.frameOf) {
      context.save();
      context.beginPath();
      context.rect(MARGIN.left - 6, MARGIN.top - 6, this.plotWidth + 12, this.plotHeight + 12);
      context.clip();
      for (const id of this.shown()) this.drawLine(context, id);
      context.restore();
      this.drawCursor(context);
    }
    this.describe();
  }

  shown() {
    return this.store.ids(this.quantity).filter((id) => !this.hidden.has(lookOfPlace(id).place));
  }

  nameOf(id) {
    return lineName(id, this.model.get("mean_name"), this.model.get("line_names"));
  }

  lookOf(id) {
    return lookOf(id, this.ink, this.model.get("line_names").length > 0);
  }

  /** The choice of what is shown, anew only if there is more to choose from: it may be open. */
  offer() {
    const quantities = this.model.get("quantities");
    const offered = quantities.map(({ number, label }) => `${number} ${label}`).join("|");
    if (offered !== this.offered) {
      this.offered = offered;
      const options = quantities.map(({ number, label }) => new Option(label, number));
      this.choice.replaceChildren(...options);
      this.choice.hidden = quantities.length < 2;
    }
    this.choice.value = String(this.quantity);
    const unknown = { number: this.quantity, label: "values", log: false, band: null, note: "" };
    this.shows = quantities.find(({ number }) => number === this.quantity) ?? unknown;
    this.logButton.disabled = this.shows.log;
    const why = this.shows.log ? "The axis is always logarithmic here. " : "";
    const hasRuns = this.model.get("line_names").length > 0;
    const dashed = hasRuns && this.store.ids(this.quantity).some((id) => lookOfPlace(id).isValidation);
    const note = (dashed ? "Dashed: on the validation data. " : "") + why + this.shows.note;
    if (this.note.textContent !== note) this.note.textContent = note;
  }

  get wantsLog() {
    return this.shows.log || this.model.get("log_scale");
  }

  /** Decide what part of the data the plot covers, and how it maps to pixels. */
  layOut(width, height) {
    const lines = this.shown().map((id) => this.store.lines.get(id));
    const { wantsLog } = this;
    const values = withBand(extent(lines, "y", wantsLog) ?? extent(lines, "y"), this.shows.band);
    const steps = extent(lines, "x");
    this.plotWidth = width - MARGIN.left - MARGIN.right;
    this.plotHeight = height - MARGIN.top - MARGIN.bottom;
    this.frameOf = steps && { x: [Math.min(1, steps[0]), Math.max(steps[1], steps[0] + 1)] };
    if (!this.frameOf) return;
    let [low, high] = values ?? [0, 1];
    this.isLog = wantsLog && low > 0;
    if (this.isLog) [low, high] = [low / 1.15, high * 1.15];
    else {
      const room = (high - low || Math.abs(high) || 1) * 0.05;
      low = low >= 0 && low < 0.4 * high ? 0 : low - room;
      high += room;
    }
    this.frameOf.y = [low, high];
    const scale = this.isLog ? Math.log10 : (value) => value;
    const [bottom, top] = [scale(low), scale(high)];
    const [left, right] = this.frameOf.x;
    this.toX = (x) => MARGIN.left + ((x - left) / (right - left)) * this.plotWidth;
    this.toY = (y) => MARGIN.top + (1 - (scale(y) - bottom) / (top - bottom)) * this.plotHeight;
  }

  drawAxes(context) {
    const { left, top } = MARGIN;
    const [right, bottom] = [left + this.plotWidth, top + this.plotHeight];
    context.fillStyle = context.strokeStyle = this.ink;
    context.lineWidth = 1;
    context.font = `12px ${this.font}`;
    if (!this.frameOf) {
      context.textAlign = "center";
      context.globalAlpha = 0.75;
      const waits = this.quantity === 0 ? "Waiting for the first minibatch" : "No values yet";
      const text = this.store.isComplete ? waits : "Waiting for the kernel";
      context.fillText(text, left + this.plotWidth / 2, top + this.plotHeight / 2);
      context.globalAlpha = 1;
      return;
    }
    const [low, high] = this.frameOf.y;
    const ticks = (this.isLog ? logTicks : linearTicks)(low, high, this.plotHeight / 45);
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const tick of ticks) {
      const y = Math.round(this.toY(tick)) + 0.5;
      stroke(context, 0.13, [[left, y], [right, y]]);
      text(context, 0.8, tickText(tick), left - 8, y);
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    const everySteps = linearTicks(...this.frameOf.x, Math.max(2, this.plotWidth / 90));
    for (const tick of everySteps.filter(Number.isInteger)) {
      stroke(context, 0.4, [[this.toX(tick), bottom], [this.toX(tick), bottom + 4]]);
      text(context, 0.8, tickText(tick), this.toX(tick), bottom + 6);
    }
    stroke(context, 0.4, [[left, bottom + 0.5], [right, bottom + 0.5]]);
    context.textAlign = "right";
    text(context, 0.8, "minibatches of each worker", right, bottom + 20);
    context.textAlign = "left";
    text(context, 0.8, this.shows.label + (this.isLog ? " (log scale)" : ""), 2, 2);
    this.drawBand(context, left, right);
    this.drawEpochs(context, bottom);
  }

  /** Between which values all is usually well: a shade, two edges, and words. */
  drawBand(context, left, right) {
    const { band } = this.shows;
    if (!band) return;
    const [high, low, target] = [band.high, band.low, band.target].map((value) => this.toY(value));
    context.fillStyle = GOOD;
    context.globalAlpha = 0.14;
    context.fillRect(left, high, right - left, low - high);
    context.globalAlpha = 1;
    context.fillStyle = this.ink;
    stroke(context, 0.35, [[left, high], [right, high]]);
    stroke(context, 0.35, [[left, low], [right, low]]);
    context.setLineDash([6, 4]);
    stroke(context, 0.6, [[left, target], [right, target]]);
    context.setLineDash([]);
    context.textAlign = "right";
    context.textBaseline = "bottom";
    text(context, 0.8, `${band.label}: ${tickText(band.low)} to ${tickText(band.high)}`, right - 4, low - 4);
    context.textAlign = "left";
    context.textBaseline = "top";
  }

  drawEpochs(context, bottom) {
    const epochs = this.store.lines.get(EPOCH);
    let free = -Infinity;
    for (let i = 0; epochs && i < epochs.length; i += 1) {
      if (epochs.y[i] <= 1) continue;
      const x = Math.round(this.toX(epochs.x[i])) + 0.5;
      if (x - free < 3) continue;
      context.setLineDash([2, 3]);
      stroke(context, 0.3, [[x, MARGIN.top - 10], [x, bottom]]);
      context.setLineDash([]);
      if (x - free > 62 && x < MARGIN.left + this.plotWidth - 50) {
        context.textAlign = "left";
        text(context, 0.65, `epoch ${epochs.y[i]}`, x + 4, MARGIN.top - 10);
        free = x;
      }
    }
  }

  drawLine(context, id) {
    const line = this.store.lines.get(id);
    const look = this.lookOf(id);
    const points = decimate(line, this.toX, this.toY);
    context.strokeStyle = context.fillStyle = look.colour;
    context.lineWidth = look.width;
    context.globalAlpha = look.alpha;
    context.lineJoin = "round";
    context.setLineDash(look.dash);
    context.beginPath();
    let isDown = false;
    for (let i = 0; i < points.length; i += 2) {
      if (Number.isNaN(points[i])) isDown = false;
      else if (isDown) context.lineTo(points[i], points[i + 1]);
      else {
        context.moveTo(points[i], points[i + 1]);
        isDown = true;
      }
    }
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
    const marks = look.marker === "ring" ? points : points.slice(-2);
    for (let i = 0; i < marks.length; i += 2) mark(context, look.marker, marks[i], marks[i + 1]);
  }

  // --- reading values: the same cursor for the pointer and the keyboard

  /** The line that the keyboard walks along: the mean, or the longest one. */
  reference() {
    const ids = this.shown();
    if (ids.includes(MEAN)) return this.store.lines.get(MEAN);
    const lines = ids.map((id) => this.store.lines.get(id));
    return lines.reduce((a, b) => (b.length > (a?.length ?? 0) ? b : a), undefined);
  }

  pointAt(pixel) {
    if (!this.frameOf) return;
    const [left, right] = this.frameOf.x;
    this.moveTo(left + ((pixel - MARGIN.left) / this.plotWidth) * (right - left));
  }

  key(event) {
    const line = this.reference();
    if (!line?.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = line.length - 1;
    const page = Math.max(1, Math.round(line.length / 10));
    const now = this.cursor === null ? last : nearest(line, this.cursor);
    const next = {
      ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1,
      PageDown: now - page, PageUp: now + page, Home: 0, End: last, Escape: null,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.moveTo(next === null ? null : line.x[Math.min(last, Math.max(0, next))]);
  }

  moveTo(x) {
    if (x === this.cursor) return;
    this.cursor = x;
    this.schedule();
  }

  drawCursor(context) {
    const line = this.cursor === null ? undefined : this.reference();
    if (!line?.length) return;
    const step = line.x[nearest(line, this.cursor)];
    context.strokeStyle = this.ink;
    context.lineWidth = 1;
    const x = Math.round(this.toX(step)) + 0.5;
    stroke(context, 0.6, [[x, MARGIN.top], [x, MARGIN.top + this.plotHeight]]);
    for (const [id, at, value] of this.valuesAt(step)) {
      const look = this.lookOf(id);
      context.fillStyle = context.strokeStyle = look.colour;
      if (Number.isFinite(this.toY(value))) mark(context, look.marker, this.toX(at), this.toY(value));
    }
  }

  /** [id, step, value] of the point of each line that is nearest to `step`. */
  valuesAt(step) {
    return this.shown().map((id) => {
      const line = this.store.lines.get(id);
      const i = nearest(line, step);
      return [id, line.x[i], line.y[i]];
    });
  }

  /** Words for what is drawn: the read-out below, and the same for a screen reader. */
  describe() {
    const line = this.reference();
    const summary = this.model.get("summary");
    const what = this.quantity === 0 ? "Loss curve" : `Curve of the ${this.shows.label}`;
    this.canvas.setAttribute("aria-label", `${what}. ${summary}. Arrow keys read values.`);
    this.logButton.setAttribute("aria-pressed", String(Boolean(this.wantsLog)));
    let text = "";
    let step = line?.length ? line.x[line.length - 1] : 0;
    this.canvas.setAttribute("aria-valuemax", String(step));
    if (line?.length && this.cursor !== null) step = line.x[nearest(line, this.cursor)];
    if (line?.length) {
      const inWords = this.quantity === 0 ? lossText : valueText;
      const values = this.valuesAt(step).map(([id, at, value]) => {
        const where = lookOfPlace(id).isValidation && at !== step ? ` (step ${at.toLocaleString("en-US")})` : "";
        return `${this.nameOf(id)} ${inWords(value)}${where}`;
      });
      text = `Step ${step.toLocaleString("en-US")}: ${values.join(", ")}`;
    }
    this.canvas.setAttribute("aria-valuenow", String(step));
    this.canvas.setAttribute("aria-valuetext", text || "no values yet");
    const hint = line?.length ? "Point at the curve, or focus it and press the arrow keys, to read values." : "";
    this.readout.textContent = this.cursor === null ? hint : text;
  }

  showLegend() {
    // A run's validation data goes with the run.
    const ids = this.store.ids(this.quantity).filter((id, _, all) => {
      const { place, isValidation } = lookOfPlace(id);
      return !(isValidation && all.some((other) => other !== id && workerOf(other) === place));
    });
    const key = `${ids}|${[...this.hidden]}|${this.ink}|${this.model.get("line_names")}`;
    if (key === this.legendOf) return;
    this.legendOf = key;
    const hadFocus = [...this.legend.children].indexOf(document.activeElement);
    this.legend.replaceChildren(...ids.map((id) => this.legendEntry(id)));
    this.legend.children[hadFocus]?.focus();
  }

  legendEntry(id) {
    const button = document.createElement("button");
    button.type = "button";
    const name = this.nameOf(id);
    const { place } = lookOfPlace(id);
    button.setAttribute("aria-pressed", String(!this.hidden.has(place)));
    button.title = `Show or hide ${name}`;
    const swatch = document.createElement("canvas");
    const ratio = window.devicePixelRatio || 1;
    [swatch.width, swatch.height] = [26 * ratio, 14 * ratio];
    swatch.setAttribute("aria-hidden", "true");
    const context = swatch.getContext("2d");
    context.scale(ratio, ratio);
    const look = this.lookOf(id);
    context.strokeStyle = context.fillStyle = look.colour;
    context.lineWidth = look.width;
    context.setLineDash(look.dash);
    stroke(context, 1, [[0, 7], [26, 7]]);
    context.setLineDash([]);
    mark(context, look.marker, 13, 7);
    button.append(swatch, name);
    button.addEventListener("click", () => {
      if (!this.hidden.delete(place)) this.hidden.add(place);
      this.schedule();
    });
    return button;
  }
}

/** Colour is never alone: the mean is bold, validation dashed, each worker has its marker. */
function lookOf(line, ink, isOfRuns) {
  const { place: id, isValidation } = lookOfPlace(line);
  if (id === MEAN) return { colour: ink, width: 2.5, alpha: 1, dash: [], marker: "none" };
  if (id === VALIDATION) {
    return { colour: VALIDATION_COLOUR, width: 2, alpha: 1, dash: [6, 4], marker: "ring" };
  }
  const marker = MARKERS[(id + Math.floor(id / COLOURS.length)) % MARKERS.length];
  if (isOfRuns) {
    const dash = isValidation ? [6, 4] : [];
    const width = isValidation ? 1.5 : 2;
    return { colour: COLOURS[id % COLOURS.length], width, alpha: 1, dash, marker };
  }
  const isDark = (ink.match(/\d+/g) ?? [0]).slice(0, 3).every((channel) => channel > 128);
  const alpha = isDark ? 0.9 : 0.6; // thin dark colours vanish on a dark page
  return { colour: COLOURS[id % COLOURS.length], width: 1, alpha, dash: [], marker };
}

function stroke(context, alpha, points) {
  context.globalAlpha = alpha;
  context.beginPath();
  points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.stroke();
  context.globalAlpha = 1;
}

function text(context, alpha, words, x, y) {
  context.globalAlpha = alpha;
  context.fillText(words, x, y);
  context.globalAlpha = 1;
}

function mark(context, marker, x, y) {
  if (!Number.isFinite(x) || !Number.isFinite(y)) return;
  const r = 3.5;
  context.beginPath();
  if (marker === "circle" || marker === "ring") context.arc(x, y, r, 0, 2 * Math.PI);
  else if (marker === "square") context.rect(x - r + 0.5, y - r + 0.5, 2 * r - 1, 2 * r - 1);
  else if (marker === "none") context.arc(x, y, 2.5, 0, 2 * Math.PI);
  else if (marker === "triangle" || marker === "diamond") {
    context.moveTo(x, y - r - 0.5);
    context.lineTo(x + r, marker === "triangle" ? y + r - 0.5 : y);
    if (marker === "diamond") context.lineTo(x, y + r + 0.5);
    context.lineTo(x - r, marker === "triangle" ? y + r - 0.5 : y);
    context.closePath();
  } else {
    const d = marker === "cross" ? r * 0.8 : 0;
    const o = marker === "cross" ? r * 0.8 : r + 0.5;
    context.moveTo(x - o, y - d);
    context.lineTo(x + o, y + d);
    context.moveTo(x + d, y - o);
    context.lineTo(x - d, y + o);
  }
  context.lineWidth = marker === "ring" ? 2 : 1.5;
  context.setLineDash([]);
  if (["cross", "plus", "ring"].includes(marker)) context.stroke();
  else context.fill();
}
