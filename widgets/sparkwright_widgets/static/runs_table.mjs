// A table of runs: check boxes, sortable columns, cells created by Python.

/** Format an age in seconds, such as "5 min ago". */
export function agoText(seconds) {
  if (seconds < 60) return "just now";
  const steps = [[60, "min"], [3600, "h"], [86400, "d"]];
  const [size, unit] = steps.findLast(([size]) => seconds >= size);
  return `${Math.floor(seconds / size)} ${unit} ago`;
}

/** Row numbers sorted by a column; rows without a value come last. */
export function sortedRows(rows, column, descending) {
  const key = (row) => row.cells[column].sort ?? null;
  const order = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
  return rows
    .map((row, number) => ({ number, value: key(row) }))
    .sort((a, b) => {
      if (a.value === null || b.value === null) return (a.value === null) - (b.value === null);
      return (descending ? -1 : 1) * order(a.value, b.value) || a.number - b.number;
    })
    .map(({ number }) => number);
}

const make = (tag, parent, properties = {}) => {
  const node = Object.assign(document.createElement(tag), properties);
  parent.append(node);
  return node;
};

class RunsTable {
  constructor(model, root) {
    this.model = model;
    this.sorted = { column: null, descending: true };
    root.classList.add("sparkwright-runs");
    this.box = make("div", root, { className: "sparkwright-scroll", tabIndex: 0 });
    this.box.setAttribute("role", "region");
    this.box.setAttribute("aria-label", "Stored runs");
  }

  draw() {
    const focused = this.box.contains(document.activeElement) ? document.activeElement.dataset.key : "";
    const rows = this.model.get("rows");
    const table = make("table", document.createDocumentFragment(), { className: "sparkwright-table" });
    this.drawHeads(make("tr", make("thead", table)));
    const body = make("tbody", table);
    const { column, descending } = this.sorted;
    const order = column === null ? rows.keys() : sortedRows(rows, column, descending);
    for (const number of order) this.drawRow(make("tr", body), rows[number]);
    this.box.replaceChildren(table);
    this.showSelected();
    this.showTimes();
    if (focused) this.box.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  drawHeads(row) {
    const { column: by, descending } = this.sorted;
    this.model.get("heads").forEach((head, column) => {
      const cell = make("th", row, { scope: "col", className: head.text ? "sparkwright-text" : "" });
      const mark = by !== column ? "" : descending ? " ↓" : " ↑";
      const button = make("button", cell, { textContent: head.name + mark, type: "button" });
      button.dataset.key = `head-${column}`;
      cell.setAttribute("aria-sort", by !== column ? "none" : descending ? "descending" : "ascending");
      button.addEventListener("click", () => {
        this.sorted = { column, descending: by === column ? !descending : !head.text };
        this.draw();
      });
    });
  }

  drawRow(row, { id, cells }) {
    row.dataset.run = id;
    const [name, ...others] = cells;
    const label = make("label", make("th", row, { scope: "row" }));
    const tick = make("input", label, { type: "checkbox" });
    tick.dataset.key = id;
    make("span", label, { textContent: name.text, title: name.text });
    tick.addEventListener("change", () => this.select(id, tick.checked));
    others.forEach((cell, place) => {
      const { text: isText } = this.model.get("heads")[place + 1];
      const node = make("td", row, { className: isText ? "sparkwright-text" : "", title: cell.title ?? "" });
      if (cell.html !== undefined) node.innerHTML = cell.html; // escaped by Python
      else if (cell.time !== undefined) node.dataset.time = cell.time;
      else node.textContent = cell.text;
    });
  }

  select(id, chosen) {
    const others = this.model.get("selected").filter((each) => each !== id);
    this.model.set("selected", chosen ? [...others, id] : others);
    this.model.save_changes();
  }

  showSelected() {
    const selected = new Set(this.model.get("selected"));
    for (const row of this.box.querySelectorAll("tr[data-run]")) {
      const chosen = selected.has(row.dataset.run);
      row.classList.toggle("sparkwright-selected", chosen);
      row.querySelector("input").checked = chosen;
    }
  }

  showTimes() {
    for (const cell of this.box.querySelectorAll("[data-time]")) {
      cell.textContent = agoText(Date.now() / 1000 - Number(cell.dataset.time));
    }
  }
}

function render({ model, el }) {
  const table = new RunsTable(model, el);
  const draw = () => table.draw();
  const select = () => table.showSelected();
  model.on("change:rows", draw);
  model.on("change:selected", select);
  const timer = setInterval(() => table.showTimes(), 20_000);
  draw();
  return () => {
    clearInterval(timer);
    model.off("change:rows", draw);
    model.off("change:selected", select);
  };
}

export default { render };
