/**
 * The page of `_live_chart.py`: texts, the Stop button and the chart of one or of several runs, and
 * whether the kernel is still there. Python joins the modules into one text.
 *
 * Messages are told apart by their `kind`; one that is not known here is passed over. A further
 * picture adds a kind of message, a place for itself in `render`, and nothing else.
 */

import { CurveStore, Pulse } from "./curve.mjs";
import { ChartView } from "./chart.mjs";

const ASK_AGAIN_MS = 1500;
const LOOK_MS = 500;
const ABOVE = ["alerts", "problem", "progress"];
const BELOW = ["workers", "table", "settings"];
const LOST = {
  ended: ["✕", "Kernel restarted; the run ended", ""],
  silent: ["⚠", "No answer from the kernel", "It may be busy. If it was restarted, the run ended."],
};

/** One factory call per model; its views share the store. */
export default () => {
  const store = new CurveStore();
  const pulse = new Pulse(performance.now());
  const views = new Set();
  const ask = (model) => model.send({ kind: "hello" });
  const points = (model, content, buffers) => {
    if (views.size === 0) return store.forget();
    const next = store.receive(content, buffers?.[0] ?? new ArrayBuffer(0));
    if (next === "ask") ask(model);
    if (next === "draw") for (const view of views) view.chart.schedule();
  };
  const kinds = { snapshot: points, append: points };
  return {
    initialize({ model }) {
      const received = () => pulse.received(performance.now());
      model.on("msg:custom", (content, buffers) => {
        received();
        kinds[content.kind]?.(model, content, buffers);
      });
      model.on("change:texts", received);
      // JupyterLab reports a lost kernel; elsewhere only its silence does.
      model.on("comm_live_update", () => {
        pulse.cut();
        for (const view of views) view.look();
      });
    },
    render({ model, el }) {
      const view = new PanelView(model, el, store, pulse);
      views.add(view);
      // Asked again until it is answered: right after a reload a message can be lost while the page
      // and the kernel find each other, and a run that has ended sends nothing more by itself.
      const askIfIncomplete = () => store.isComplete || ask(model);
      askIfIncomplete();
      const again = setInterval(askIfIncomplete, ASK_AGAIN_MS);
      const looks = setInterval(() => view.look(), LOOK_MS);
      return () => {
        clearInterval(again);
        clearInterval(looks);
        views.delete(view);
        view.dispose();
        if (views.size === 0) store.forget();
      };
    },
  };
};

class PanelView {
  constructor(model, el, store, pulse) {
    Object.assign(this, { model, el, pulse, kernel: "alive", placed: {} });
    el.classList.add("sparkwright-panel", "sparkwright-live");
    const place = (name) => `<div data-place="${name}" hidden></div>`;
    el.innerHTML = `
      <div class="sparkwright-top">${place("state")}
        <button type="button" class="sparkwright-stop" hidden></button></div>
      ${ABOVE.map(place).join("")}<div></div>${BELOW.map(place).join("")}`;
    this.button = el.querySelector(".sparkwright-stop");
    this.button.addEventListener("click", () => model.send({ kind: "stop" }));
    this.chart = new ChartView(model, el.querySelector("div:not([data-place]):not([class])"), store);
    const show = () => this.show();
    const changes = ["change:texts", "change:stop_word", "change:stop_help", "change:has_ended"];
    for (const change of changes) model.on(change, show);
    this.dispose = () => {
      for (const change of changes) model.off(change, show);
      this.chart.dispose();
    };
    this.show();
  }

  /** Whether the kernel is there; of an ended run nothing more is expected. */
  look() {
    const found = this.pulse.look(performance.now());
    const kernel = this.model.get("has_ended") ? "alive" : found;
    if (kernel === this.kernel) return;
    this.kernel = kernel;
    this.show();
  }

  show() {
    const texts = this.model.get("texts");
    const lost = LOST[this.kernel];
    for (const name of ["state", ...ABOVE, ...BELOW]) {
      const isPast = name === "workers" && this.kernel === "ended"; // "training", "just now"
      this.put(name, isPast ? "" : (texts[name] ?? ""), name === "state" ? lost : undefined);
    }
    this.el.dataset.kernel = this.kernel;
    const word = this.model.get("stop_word");
    const isOver = word && this.kernel === "ended";
    this.button.hidden = !word;
    this.button.disabled = word !== "Stop" || Boolean(lost);
    this.button.title = this.model.get("stop_help");
    const label = isOver ? "Run ended" : word;
    if (this.button.textContent !== `◼ ${label}`) {
      this.button.innerHTML = `<span aria-hidden="true">◼</span> ${label}`;
    }
  }

  /** Fill a place, only if that changes: folds in it may be open, and a screen reader reads it. */
  put(name, html, lost) {
    if (this.placed[name] === `${lost}${html}`) return;
    this.placed[name] = `${lost}${html}`;
    const node = this.el.querySelector(`[data-place="${name}"]`);
    node.innerHTML = html;
    const badge = node.querySelector(".sparkwright-badge");
    if (lost && badge) {
      badge.textContent = `${lost[0]} ${lost[1]}`;
      node.querySelector(".sparkwright-message").textContent = lost[2];
    } else if (lost) node.textContent = lost.join(" "); // a comparison has no line of its own
    node.hidden = !node.innerHTML;
  }
}
