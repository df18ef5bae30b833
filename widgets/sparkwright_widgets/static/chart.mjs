/**
 * The chart of one or more runs: controls, legend and a 2D canvas, drawn at most once per frame.
 * live_chart.mjs adds it to the page.
 */

import { BAND, EPOCH, MEAN, bandOf, extent, lineName, lookOfPlace, mapped, smoothed, workerOf } from "./curve.mjs";
import { axesOf, unitsOf, withBand } from "./axes.mjs";
import { Plot, drawSwatch, lookOf } from "./drawing.mjs";
import { Reader } from "./reading.mjs";

const AXES = { step: "by step", epoch: "by epoch", time: "by time" };
const CHANGES = [
  "log_scale", "quantity", "quantities", "summary", "line_names", "x_axis", "smoothing", "each_worker",
  "epochs_done",
].map((name) => `change:${name}`);

export class ChartView extends Reader {
  constructor(model, el, store) {
    super();
    Object.assign(this, { model, store, el, frame: 0, hidden: new Set(), legendOf: "", offered: "" });
    el.classList.add("sparkwright-chart");
    el.dataset.lmSuppressShortcuts = "true"; // JupyterLab's command mode uses letters and arrows
    el.innerHTML = `
      <div class="sparkwright-chart-head">
        <div class="sparkwright-legend" role="group" aria-label="Lines shown"></div>
        <div class="sparkwright-tools" role="group" aria-label="View">
          <select class="sparkwright-choice" aria-label="What the curve shows"></select>
          <select class="sparkwright-choice" aria-label="Horizontal axis"></select>
          <label class="sparkwright-smoothing" title="Exponential moving average, for display only">
            Smoothing <input type="range" min="0" max="0.98" step="0.02"></label>
          <button type="button" class="sparkwright-toggle" title="A line for each worker">Each worker</button>
          <button type="button" class="sparkwright-toggle">Log scale</button>
          <button type="button" class="sparkwright-toggle" hidden>Show all</button>
        </div>
      </div>
      <canvas tabindex="0" role="slider" aria-valuemin="0"></canvas>
      <div class="sparkwright-readout"></div>
      <div class="sparkwright-note" role="note"></div>`;
    [this.choice, this.axisChoice] = el.querySelectorAll("select");
    [this.workersButton, this.logButton, this.allButton] = el.querySelectorAll(".sparkwright-toggle");
    [this.legend, this.canvas, this.readout, this.note, this.slider] = [
      ".sparkwright-legend", "canvas", ".sparkwright-readout", ".sparkwright-note", "input",
    ].map((selector) => el.querySelector(selector));
    this.listen();
    this.schedule();
  }

  listen() {
    const aborter = new AbortController();
    const on = (node, name, act) => node.addEventListener(name, act, { signal: aborter.signal });
    const schedule = () => this.schedule();
    const save = (name, value) => {
      this.model.set(name, value);
      this.model.save_changes();
    };
    on(this.logButton, "click", () => save("log_scale", !this.model.get("log_scale")));
    on(this.workersButton, "click", () => save("each_worker", !this.model.get("each_worker")));
    on(this.allButton, "click", () => this.show(null));
    on(this.choice, "change", () => save("quantity", Number(this.choice.value)));
    on(this.axisChoice, "change", () => {
      this.zoom = this.cursor = null;
      save("x_axis", this.axisChoice.value);
    });
    on(this.slider, "input", () => save("smoothing", Number(this.slider.value)));
    for (const control of [this.choice, this.axisChoice, this.slider]) {
      // The notebook would use the arrow keys to select another cell.
      on(control, "keydown", (event) => {
        if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
      });
    }
    this.listenForReading(on);
    for (const change of CHANGES) this.model.on(change, schedule);
    const size = new ResizeObserver(schedule);
    size.observe(this.canvas);
    const theme = new MutationObserver(schedule);
    for (const node of [document.documentElement, document.body]) {
      theme.observe(node, { attributes: true });
    }
    on(matchMedia("(prefers-color-scheme: dark)"), "change", schedule);
    this.dispose = () => {
      cancelAnimationFrame(this.frame);
      aborter.abort();
      size.disconnect();
      theme.disconnect();
      for (const change of CHANGES) this.model.off(change, schedule);
    };
  }

  /** Draw in the next frame, at most once. Hidden tabs get no frames. */
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
    if (this.canvas.width !== pixelWidth) this.canvas.width = pixelWidth;
    if (this.canvas.height !== pixelHeight) this.canvas.height = pixelHeight;
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const style = getComputedStyle(this.el);
    [this.ink, this.font] = [style.color, style.fontFamily];
    this.offer();
    this.take();
    this.showLegend();
    const plot = (this.plot = this.newPlot(context, width, height));
    if (!plot.x) {
      const waits = this.quantity === 0 ? "Waiting for the first minibatch" : "No values yet";
      plot.words(this.store.isComplete ? waits : "Waiting for the kernel");
    } else {
      plot.axes(this.shows.label);
      if (this.shows.band) plot.healthy(this.shows.band);
      const epochs = this.store.lines.get(EPOCH);
      if (epochs && this.kind !== "epoch") plot.epochs(mapped(epochs, this.units?.(0) ?? ((x) => x)));
      plot.inside(() => this.drawLines(plot));
      this.drawCursor(plot);
      if (this.drag) plot.selection(this.drag.from, this.drag.to);
    }
    this.describe();
  }

  drawLines(plot) {
    const shown = this.shown();
    const ownMean = shown.includes(MEAN) && !this.drawn.has(MEAN);
    if (this.hasBand && (ownMean || shown.includes(BAND))) {
      const columns = bandOf(this.workers.map((id) => this.drawn.get(id)), plot.toX, plot.left, plot.right);
      if (shown.includes(BAND)) plot.band(columns, this.lookOf(BAND));
      if (ownMean) {
        const x = columns.map((column) => plot.at(column.x));
        const line = { x, y: columns.map(({ mean }) => mean), length: columns.length };
        plot.line(line, this.lookOf(MEAN));
      }
    }
    const lines = shown.filter((id) => this.drawn.has(id));
    for (const id of lines.filter((id) => this.isSmoothed(id))) {
      const { x } = this.drawn.get(id);
      const { y, length } = this.store.lines.get(id);
      plot.line({ x, y, length }, { ...this.lookOf(id), alpha: 0.3, width: 1, isBare: true });
    }
    for (const id of lines) plot.line(this.drawn.get(id), this.lookOf(id));
  }

  /** The lines to draw, in the units of the axes. */
  take() {
    const { lines } = this.store;
    const ids = this.store.ids(this.quantity);
    this.workers = ids.filter((id) => workerOf(id) >= 0);
    this.hasBand = !this.isOfRuns && this.workers.length > 1 && !this.model.get("each_worker");
    this.units = unitsOf(this.kind, lines, this.model.get("epochs_done"));
    this.drawn = new Map();
    const [first, last] = extent(ids.map((id) => lines.get(id)), "x") ?? [0, 0];
    for (const id of ids) {
      const { place } = lookOfPlace(id);
      const units = this.units?.(this.isOfRuns ? place : 0);
      if (units === null) continue; // a run that does not log times
      const weight = this.isSmoothed(id) ? this.smoothing : 0;
      const line = smoothed(lines.get(id), weight, Math.max(1, last - first));
      this.drawn.set(id, units ? mapped(line, units) : line);
    }
    const others = ids.filter((id) => !this.workers.includes(id));
    if (!this.hasBand) this.entries = ids;
    else this.entries = [BAND, ...(others.includes(MEAN) ? [] : [MEAN]), ...others];
  }

  isSmoothed(id) {
    return this.smoothing > 0 && !lookOfPlace(id).isValidation;
  }

  shown() {
    return this.entries.filter((id) => !this.hidden.has(lookOfPlace(id).place));
  }

  nameOf(id) {
    if (id === MEAN && this.quantity !== 0) return "mean of the workers";
    return lineName(id, this.model.get("mean_name"), this.model.get("line_names"));
  }

  lookOf(id) {
    return lookOf(id, this.ink, { isOfRuns: this.isOfRuns, hasBand: this.hasBand });
  }

  /** Rebuild the choices only if they have changed, because a list may be open. */
  offer() {
    const { model, store } = this;
    this.quantity = model.get("quantity");
    this.isOfRuns = model.get("line_names").length > 0;
    this.smoothing = model.get("smoothing");
    const quantities = model.get("quantities");
    const axes = axesOf(store.lines, this.isOfRuns);
    this.kind = axes.includes(model.get("x_axis")) ? model.get("x_axis") : "step";
    const offered = [...quantities.map(({ number, label }) => `${number} ${label}`), ...axes].join("|");
    if (offered !== this.offered) {
      this.offered = offered;
      this.choice.replaceChildren(...quantities.map(({ number, label }) => new Option(label, number)));
      this.axisChoice.replaceChildren(...axes.map((axis) => new Option(AXES[axis], axis)));
      this.choice.hidden = quantities.length < 2;
      this.axisChoice.hidden = axes.length < 2;
    }
    this.choice.value = String(this.quantity);
    this.axisChoice.value = this.kind;
    this.slider.value = String(this.smoothing);
    const unknown = { number: this.quantity, label: "values", log: false, band: null, note: "" };
    this.shows = quantities.find(({ number }) => number === this.quantity) ?? unknown;
    this.logButton.disabled = this.shows.log;
    const ids = store.ids(this.quantity);
    this.workersButton.hidden = this.isOfRuns || ids.filter((id) => workerOf(id) >= 0).length < 2;
    this.workersButton.setAttribute("aria-pressed", String(model.get("each_worker")));
    this.logButton.setAttribute("aria-pressed", String(Boolean(this.wantsLog)));
    this.allButton.hidden = !this.zoom;
    const why = this.shows.log ? "The axis is always logarithmic here. " : "";
    const dashed = this.isOfRuns && ids.some((id) => lookOfPlace(id).isValidation);
    const note = (dashed ? "Dashed: on the validation data. " : "") + why + this.shows.note;
    if (this.note.textContent !== note) this.note.textContent = note;
  }

  get wantsLog() {
    return this.shows.log || this.model.get("log_scale");
  }

  /** Determine the range of data in the plot. */
  newPlot(context, width, height) {
    const shown = this.shown();
    const ids = this.hasBand && shown.includes(BAND) ? [...this.workers, ...shown] : shown;
    const lines = ids.filter((id) => this.drawn.has(id)).map((id) => this.drawn.get(id));
    if (shown.includes(MEAN) && !lines.length) lines.push(...this.workers.map((id) => this.drawn.get(id)));
    const basics = { width, height, ink: this.ink, font: this.font, kind: this.kind };
    const ends = extent(lines, "x");
    if (!ends) return new Plot(context, basics);
    const first = this.kind === "step" ? Math.min(1, ends[0]) : 0;
    this.whole = [first, ends[1] > first ? ends[1] : first + 1];
    const x = this.zoom ?? this.whole;
    const { wantsLog } = this;
    const found = extent(lines, "y", wantsLog, x) ?? extent(lines, "y", false, x);
    let [low, high] = withBand(found, this.shows.band) ?? [0, 1];
    const isLog = wantsLog && low > 0;
    if (isLog) [low, high] = [low / 1.15, high * 1.15];
    else {
      const room = (high - low || Math.abs(high) || 1) * 0.05;
      low = low >= 0 && low < 0.4 * high ? 0 : low - room;
      high += room;
    }
    return new Plot(context, { ...basics, x, y: [low, high], isLog });
  }

  showLegend() {
    // Validation lines are shown and hidden with their runs.
    const ids = this.entries.filter((id, _, all) => {
      const { place, isValidation } = lookOfPlace(id);
      return !(isValidation && all.some((other) => other !== id && workerOf(other) === place));
    });
    const key = `${ids}|${[...this.hidden]}|${this.ink}|${this.model.get("line_names")}|${this.quantity}`;
    if (key === this.legendOf) return;
    this.legendOf = key;
    const hadFocus = [...this.legend.children].indexOf(this.el.getRootNode().activeElement);
    this.legend.replaceChildren(...ids.map((id) => this.legendEntry(id)));
    this.legend.children[hadFocus]?.focus();
  }

  legendEntry(id) {
    const button = document.createElement("button");
    button.type = "button";
    const name = id === BAND ? `${this.workers.length} workers, lowest to highest` : this.nameOf(id);
    const { place } = lookOfPlace(id);
    button.setAttribute("aria-pressed", String(!this.hidden.has(place)));
    button.title = `Show or hide ${name}`;
    const swatch = document.createElement("canvas");
    swatch.setAttribute("aria-hidden", "true");
    drawSwatch(swatch, this.lookOf(id));
    button.append(swatch, name);
    button.addEventListener("click", () => {
      if (!this.hidden.delete(place)) this.hidden.add(place);
      this.schedule();
    });
    return button;
  }
}
