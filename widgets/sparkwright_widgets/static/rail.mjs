// The steps of the workbench: buttons with an icon, a title and a line on the state of the step.

const PRESSED_MS = 5000;

function render({ model, el }) {
  const page = el.ownerDocument;
  const nav = page.createElement("nav");
  nav.setAttribute("aria-label", "Steps");
  const list = nav.appendChild(page.createElement("ol"));
  const top = page.createElement("span"); // scroll target; the rest of the rail is sticky
  el.replaceChildren(top, nav);
  const entries = new Map();
  let bench = null;
  let pressed = -Infinity;

  const made = (step) => {
    const button = page.createElement("button");
    button.type = "button";
    for (const part of ["icon", "title", "text"]) {
      const span = button.appendChild(page.createElement("span"));
      span.className = `sparkwright-step-${part}`;
    }
    button.firstChild.setAttribute("aria-hidden", "true");
    button.addEventListener("click", () => model.send({ open: step.name }));
    const item = list.appendChild(page.createElement("li"));
    item.append(button);
    entries.set(step.name, button);
    return button;
  };
  const draw = () => {
    for (const step of model.get("steps")) {
      const button = entries.get(step.name) ?? made(step);
      const [icon, title, text] = button.children;
      icon.textContent = step.icon;
      title.textContent = step.title;
      text.textContent = step.text;
      button.title = `${step.word}: ${step.text}`;
      button.className = `sparkwright-step sparkwright-is-${step.state}`;
    }
    mark();
  };
  const mark = () => {
    for (const [name, button] of entries) {
      if (name !== model.get("here")) button.removeAttribute("aria-current");
      else {
        button.setAttribute("aria-current", "step");
        const left = button.offsetLeft - (list.clientWidth - button.offsetWidth) / 2;
        if (list.scrollWidth > list.clientWidth) list.scrollLeft = left;
      }
    }
  };
  const moved = () => {
    mark();
    // Scroll up, because a shorter step would leave the view empty. Do so only after a click in this
    // page: a cell that opens a step must not scroll it.
    if (performance.now() - pressed > PRESSED_MS) return;
    requestAnimationFrame(() => top.scrollIntoView({ block: "nearest" }));
  };
  const keys = (event) => {
    const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const buttons = [...entries.values()];
    const next = buttons[buttons.indexOf(page.activeElement) + by];
    if (next) next.focus();
    event.preventDefault();
  };
  const press = (event) => {
    if (event.target.closest?.(".sparkwright-rail, .sparkwright-head")) pressed = performance.now();
  };
  let frame = 0;
  const sizes = new ResizeObserver(([entry]) => {
    const height = entry.borderBoxSize[0].blockSize;
    bench.style.setProperty("--sparkwright-head-height", `${height}px`);
  });
  const attach = () => {
    bench = el.closest(".sparkwright-bench");
    if (!bench) {
      frame = requestAnimationFrame(attach); // not yet in the page
      return;
    }
    bench.addEventListener("click", press);
    const head = bench.querySelector(".sparkwright-head");
    if (head) sizes.observe(head);
    mark();
  };

  nav.addEventListener("keydown", keys);
  model.on("change:steps", draw);
  model.on("change:here", moved);
  draw();
  attach();
  return () => {
    cancelAnimationFrame(frame);
    sizes.disconnect();
    bench?.removeEventListener("click", press);
    model.off("change:steps", draw);
    model.off("change:here", moved);
  };
}

export default { render };
