/**
 * The graph and the list of layers: one Tab stop each, arrow keys inside. Python creates and escapes
 * the HTML of drawing and rows; this module patches it, so that focus and scroll position are kept.
 */

const ACTIONS = { ArrowUp: "up", ArrowDown: "down" };
let lists = 0;

/** The row that a key selects, or null for other keys; -1 is no selected row. */
export const nextRow = (key, selected, count) => {
  if (count === 0) return null;
  const last = count - 1;
  const to = {
    ArrowDown: selected < 0 ? 0 : Math.min(selected + 1, last),
    ArrowUp: selected < 0 ? last : Math.max(selected - 1, 0),
    PageDown: Math.min(Math.max(selected, 0) + 10, last),
    PageUp: Math.max(selected - 10, 0),
    Home: 0,
    End: last,
  }[key];
  return to === undefined ? null : to;
};

/** The action of a key on the selected row, or null. */
export const rowAction = (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return null;
  if (event.altKey) return ACTIONS[event.key] ?? null;
  return event.key === "Delete" ? "delete" : null;
};

/** Distance that a box must scroll to show a row. */
export const scrollFor = (top, height, viewTop, viewHeight) => {
  if (top < viewTop) return top;
  return top + height > viewTop + viewHeight ? top + height - viewHeight : viewTop;
};

export default {
  render({ model, el }) {
    const id = `sparkwright-layers-${(lists += 1)}`;
    const list = document.createElement("div");
    list.className = "sparkwright-layers";
    list.tabIndex = 0;
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", model.get("label"));
    el.dataset.lmSuppressShortcuts = "true"; // the notebook would use the arrow keys
    const graph = document.createElement("div");
    graph.className = "sparkwright-scroll sparkwright-graph";
    graph.tabIndex = 0;
    graph.setAttribute("role", "region");
    graph.setAttribute("aria-label", "Graph. Arrow keys choose a layer.");
    graph.addEventListener("click", ({ target }) => {
      const node = target.closest("[data-row]");
      if (node) choose(Number(node.dataset.row));
    });
    const both = document.createElement("div");
    both.className = "sparkwright-network";
    both.append(graph, list);
    el.append(both);
    const shown = [];

    const drawGraph = () => {
      graph.innerHTML = model.get("graph");
      drawSelected();
    };

    const drawRows = () => {
      const rows = model.get("rows");
      rows.forEach(({ html, state }, i) => {
        if (!shown[i]) {
          const node = document.createElement("div");
          node.setAttribute("role", "option");
          node.id = `${id}-${i}`;
          node.addEventListener("click", () => choose(i));
          list.append(node);
          shown[i] = { node, html: null };
        }
        const { node } = shown[i];
        node.className = `sparkwright-layer sparkwright-layer-${state}`;
        if (shown[i].html !== html) node.innerHTML = shown[i].html = html;
      });
      for (const { node } of shown.splice(rows.length)) node.remove();
      drawSelected();
    };

    const drawSelected = () => {
      const selected = model.get("selected");
      shown.forEach(({ node }, i) => node.setAttribute("aria-selected", String(i === selected)));
      for (const box of graph.querySelectorAll("[data-row]")) {
        const isSelected = Number(box.dataset.row) === selected;
        box.classList.toggle("sparkwright-node-selected", isSelected);
        if (isSelected) bringIntoView(box);
      }
      const node = shown[selected]?.node;
      if (!node) return list.removeAttribute("aria-activedescendant");
      list.setAttribute("aria-activedescendant", node.id);
      // scrollIntoView would also scroll the notebook.
      list.scrollTop = scrollFor(
        node.offsetTop, node.offsetHeight, list.scrollTop, list.clientHeight,
      );
    };

    const bringIntoView = (box) => {
      const [inner, outer] = [box.getBoundingClientRect(), graph.getBoundingClientRect()];
      const top = inner.top - outer.top + graph.scrollTop;
      const left = inner.left - outer.left + graph.scrollLeft;
      graph.scrollTop = scrollFor(top, inner.height, graph.scrollTop, graph.clientHeight);
      graph.scrollLeft = scrollFor(left, inner.width, graph.scrollLeft, graph.clientWidth);
    };

    const choose = (i) => {
      model.set("selected", i);
      model.save_changes();
    };

    const key = (event) => {
      const action = rowAction(event);
      const row = action || event.altKey || event.ctrlKey || event.metaKey
        ? null
        : nextRow(event.key, model.get("selected"), shown.length);
      if (action === null && row === null) return;
      event.preventDefault();
      event.stopPropagation();
      if (action) model.send({ kind: action });
      else choose(row);
    };
    for (const box of [graph, list]) box.addEventListener("keydown", key);
    model.on("change:graph", drawGraph);
    model.on("change:rows", drawRows);
    model.on("change:selected", drawSelected);
    drawGraph();
    drawRows();
    return () => {
      model.off("change:graph", drawGraph);
      model.off("change:rows", drawRows);
      model.off("change:selected", drawSelected);
    };
  },
};
