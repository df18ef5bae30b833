/**
 * The front end of `_live_chart.py`: texts, Stop button, chart of one or more runs, and the state of
 * the kernel. Python joins the modules into one text.
 *
 * Messages are dispatched by their `kind`; unknown kinds are ignored. To add a figure, add a kind of
 * message and an element in `render`.
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

/** Called once per model, whose views share the store. */
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
      // JupyterLab reports a lost kernel; other front ends only stop receiving messages.
      model.on("comm_live_update", () => {
        pulse.cut();
        for (const view of views) view.look();
      });
    },
    render({ model, el }) {
      const view = new PanelView(model, el, store, pulse);
      views.add(view);
      // Repeat the request until it is answered: after a reload, a message can be lost while page and
      // kernel reconnect, and a finished run sends nothing unrequested.
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

  /** Show whether the kernel is alive; finished runs expect no more messages. */
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

  /** Set the HTML of an element only if it changes: sections may be open, and screen readers announce it. */
  put(name, html, lost) {
    if (this.placed[name] === `${lost}${html}`) return;
    this.placed[name] = `${lost}${html}`;
    const node = this.el.querySelector(`[data-place="${name}"]`);
    node.innerHTML = html;
    const badge = node.querySelector(".sparkwright-badge");
    if (lost && badge) {
      badge.textContent = `${lost[0]} ${lost[1]}`;
      node.querySelector(".sparkwright-message").textContent = lost[2];
    } else if (lost) node.textContent = lost.join(" "); // a comparison has no status line
    node.hidden = !node.innerHTML;
  }
}
