/**
 * A slider over thresholds that updates the points on both curves and the counts without the kernel.
 * `_threshold_explorer.py` joins this file with threshold.mjs.
 */

import { ThresholdPoints, costText, countText, readingText, shareText, thresholdText } from "./threshold.mjs";

const SAVE_AFTER_MS = 120;
const SIDE = 250;
const BOX = { left: 40, right: 8, top: 8, bottom: 38 };
const PLOTS = [
  { which: "roc", title: "ROC curve", x: "false positive rate", y: "true positive rate" },
  { which: "precision-recall", title: "Precision-recall curve", x: "recall", y: "precision" },
];
const ACROSS = (x) => BOX.left + x * (SIDE - BOX.left - BOX.right);
const UP = (y) => SIDE - BOX.bottom - y * (SIDE - BOX.bottom - BOX.top);

const CELLS = [
  ["tp", "✓", "found", "true positives"], ["fn", "✕", "missed", "false negatives"],
  ["fp", "✕", "false alarms", "false positives"], ["tn", "✓", "rightly passed over", "true negatives"],
];
const RATES = [
  ["precision", "Precision"], ["recall", "Recall"], ["f1", "F1"],
  ["falsePositiveRate", "False positive rate"], ["accuracy", "Accuracy"],
];

export default {
  render({ model, el }) {
    const view = new Explorer(model, el);
    return () => view.dispose();
  },
};

let views = 0;

class Explorer {
  constructor(model, el) {
    Object.assign(this, { model, el, frame: 0, timer: 0, id: `sparkwright-threshold-${views += 1}` });
    el.classList.add("sparkwright-threshold");
    el.dataset.lmSuppressShortcuts = "true"; // JupyterLab's command mode uses letters and arrows
    el.innerHTML = `
      <label class="sparkwright-threshold-class" hidden>Class
        <select class="sparkwright-choice"></select></label>
      <div class="sparkwright-threshold-slide">
        <label for="${this.id}">Threshold: predicted positive from this score on</label>
        <input id="${this.id}" type="range" step="1" min="0">
        <input type="number" step="any" class="sparkwright-threshold-exact"
          aria-label="Threshold as a number">
      </div>
      <div class="sparkwright-threshold-jumps" role="group" aria-label="Go to a threshold">
        <button type="button" data-jump="f1">Best F1</button>
        <button type="button" data-jump="youden">Best Youden index</button>
        <button type="button" data-jump="half">0.5</button>
        <button type="button" data-jump="cost">Least cost</button>
      </div>
      <div class="sparkwright-threshold-counts"></div>
      <div class="sparkwright-figures"></div>
      <div class="sparkwright-threshold-plots"></div>
      <div class="sparkwright-threshold-costs">
        <label>Cost of a false alarm <input type="number" min="0" step="any" data-cost="cost_false_positive"></label>
        <label>Cost of a missed one <input type="number" min="0" step="any" data-cost="cost_false_negative"></label>
        <span class="sparkwright-threshold-cost"></span>
      </div>`;
    const find = (selector) => el.querySelector(selector);
    [this.slider, this.exact, this.choice] =
      ["input[type=range]", ".sparkwright-threshold-exact", "select"].map(find);
    [this.plots, this.counts, this.figures, this.costLine] = [
      ".sparkwright-threshold-plots", ".sparkwright-threshold-counts", ".sparkwright-figures",
      ".sparkwright-threshold-cost",
    ].map(find);
    this.costs = [...el.querySelectorAll("[data-cost]")];
    this.makeCounts();
    this.listen();
    this.load();
  }

  listen() {
    this.aborter = new AbortController();
    const { signal } = this.aborter;
    // Keep arrow keys and letters for these controls.
    this.el.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
    }, { signal });
    this.slider.addEventListener("input", () => this.goTo(this.last - Number(this.slider.value)), { signal });
    this.exact.addEventListener("change", () => {
      if (this.exact.value !== "") this.goTo(this.points.placeOf(Number(this.exact.value)));
      this.schedule(true);
    }, { signal });
    this.choice.addEventListener("change", () => {
      this.model.set("choice", Number(this.choice.value));
      this.model.save_changes();
    }, { signal });
    for (const button of this.el.querySelectorAll("[data-jump]")) {
      button.addEventListener("click", () => this.jump(button.dataset.jump), { signal });
    }
    for (const field of this.costs) {
      field.addEventListener("input", () => {
        const cost = Number(field.value);
        if (field.value === "" || !(cost >= 0)) return;
        this.model.set(field.dataset.cost, cost);
        this.saveSoon();
        this.schedule();
      }, { signal });
    }
    const load = () => this.load();
    const schedule = () => this.schedule();
    this.model.on("change:points", load);
    const changes = ["change:place", "change:cost_false_positive", "change:cost_false_negative"];
    for (const change of changes) this.model.on(change, schedule);
    this.dispose = () => {
      cancelAnimationFrame(this.frame);
      if (this.timer) this.save();
      this.aborter.abort();
      this.model.off("change:points", load);
      for (const change of changes) this.model.off(change, schedule);
    };
  }

  /** Replace the points, for another class or result. */
  load() {
    const get = (name) => this.model.get(name);
    this.points = new ThresholdPoints(get("points"), get("positives"), get("negatives"));
    this.last = Math.max(this.points.length - 1, 0);
    this.slider.max = String(this.last);
    const names = get("choices");
    this.choice.replaceChildren(...names.map((name, i) => new Option(name, i)));
    this.choice.value = String(get("choice"));
    this.choice.parentElement.hidden = names.length < 2;
    this.markers = PLOTS.map((plot, i) => this.makePlot(plot, i));
    this.schedule(true);
  }

  jump(where) {
    const get = (name) => this.model.get(name);
    this.goTo({
      f1: () => get("best_f1"),
      youden: () => get("best_youden"),
      half: () => this.points.placeOf(0.5),
      cost: () => this.points.placeOfLeastCost(get("cost_false_positive"), get("cost_false_negative")),
    }[where]());
  }

  goTo(place) {
    this.model.set("place", Math.min(Math.max(place, 0), this.last));
    this.saveSoon();
    this.schedule();
  }

  /** Update the figure immediately, and notify the kernel once after a short delay. */
  saveSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.save(), SAVE_AFTER_MS);
  }

  save() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.model.save_changes();
  }

  schedule(everything = false) {
    this.everything ||= everything;
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw() {
    if (!this.points.length) return;
    const place = Math.min(this.model.get("place"), this.last);
    const found = this.points.at(place);
    const words = readingText(found);
    this.slider.value = String(this.last - place);
    this.slider.setAttribute("aria-valuetext", words);
    // Do not overwrite the field while the user types in it.
    if (document.activeElement !== this.exact || this.everything) {
      this.exact.value = Number.isFinite(found.threshold) ? thresholdText(found.threshold) : "";
      this.exact.placeholder = thresholdText(found.threshold);
    }
    PLOTS.forEach(({ which, title }, i) => {
      const [x, y] = this.points.point(which, place);
      const { svg, point, lines } = this.markers[i];
      point.setAttribute("transform", `translate(${ACROSS(x)} ${UP(y)})`);
      lines.setAttribute("d", `M${ACROSS(0)} ${UP(y)}H${ACROSS(x)}V${UP(0)}`);
      svg.setAttribute("aria-label", `${title}, at ${words}`);
    });
    for (const [key] of CELLS) this.cells[key].textContent = countText(found[key]);
    for (const [key] of RATES) this.rates[key].textContent = shareText(found[key]);
    this.drawCosts(place);
    this.everything = false;
  }

  drawCosts(place) {
    const costs = this.costs.map((field) => this.model.get(field.dataset.cost));
    this.costs.forEach((field, i) => {
      if (document.activeElement !== field) field.value = String(costs[i]);
    });
    const sum = this.points.cost(place, ...costs);
    const rows = this.points.positives + this.points.negatives;
    this.costLine.textContent =
      `All errors: ${costText(sum)}, ${costText(Number(((1000 * sum) / Math.max(rows, 1)).toFixed(2)))} for 1,000 rows`;
  }

  makeCounts() {
    const cell = ([key, icon, word, name]) => `
      <div class="sparkwright-threshold-cell sparkwright-is-${icon === "✓" ? "right" : "wrong"}">
        <b data-key="${key}"></b>
        <span><span aria-hidden="true">${icon}</span> ${word}</span><span>${name}</span></div>`;
    this.counts.setAttribute("role", "group");
    this.counts.setAttribute("aria-label", "Counts at this threshold");
    this.counts.innerHTML = CELLS.map(cell).join("");
    this.figures.innerHTML = RATES
      .map(([key, name]) => `<div><span>${name}</span> <b data-key="${key}"></b></div>`).join("");
    const byKey = (box) => Object.fromEntries(
      [...box.querySelectorAll("[data-key]")].map((node) => [node.dataset.key, node]));
    [this.cells, this.rates] = [byKey(this.counts), byKey(this.figures)];
  }

  /** A curve that is drawn once, with moving marks above it. */
  makePlot({ which, title, x, y }, number) {
    let svg = this.plots.children[number];
    if (!svg) {
      svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      svg.setAttribute("viewBox", `0 0 ${SIDE} ${SIDE}`);
      svg.setAttribute("role", "img");
      this.plots.append(svg);
    }
    const shares = [0, 0.2, 0.4, 0.6, 0.8, 1];
    const grid = shares.map((share) => `
      <path class="sparkwright-threshold-grid" d="M${ACROSS(0)} ${UP(share)}H${ACROSS(1)}"/>
      <text x="${ACROSS(0) - 5}" y="${UP(share) + 4}" text-anchor="end">${share}</text>
      <text x="${ACROSS(share)}" y="${UP(0) + 15}" text-anchor="middle">${share}</text>`).join("");
    const guess = which === "roc"
      ? [0, 1] : Array(2).fill(this.points.positives / Math.max(this.points.positives + this.points.negatives, 1));
    const line = this.points.curve(which)
      .map(([across, up], i) => `${i ? "L" : "M"}${ACROSS(across).toFixed(2)} ${UP(up).toFixed(2)}`).join("");
    svg.innerHTML = `<title>${title}</title>${grid}
      <text x="${ACROSS(0.5)}" y="${SIDE - 6}" text-anchor="middle">${x}</text>
      <text transform="translate(11 ${UP(0.5)}) rotate(-90)" text-anchor="middle">${y}</text>
      <path class="sparkwright-threshold-guess" d="M${ACROSS(0)} ${UP(guess[0])}L${ACROSS(1)} ${UP(guess[1])}"/>
      <path class="sparkwright-threshold-curve" d="${line}"/>
      <path class="sparkwright-threshold-lines"/>
      <circle class="sparkwright-threshold-point" r="5.5"/>`;
    return {
      svg, point: svg.querySelector("circle"), lines: svg.querySelector(".sparkwright-threshold-lines"),
    };
  }
}
