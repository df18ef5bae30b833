/**
 * The data of the chart: the received points, and their reduction for drawing.
 * No DOM; tests/widgets/curve.test.mjs runs it with `node --test`.
 * Line numbers are those of `_curve.py`.
 */

export const MEAN = -1, VALIDATION = -2, EPOCH = -3;
export const BAND = -8; // the range of all workers; never received
export const CLOCK = -16; // run k of a comparison has CLOCK - k
export const POINTS_PER_LINE = 8192;
// The lines of quantity n have the workers' numbers plus n times this, as in `_quantities.py`; the
// last one is that of the validation data.
export const LINES_APART = 65536;
// In a comparison: offset of a run's validation line.
export const VALIDATION_APART = 32768;
export const SILENT_AFTER_MS = 4000; // the kernel sends a heartbeat each second

/** The points of a line. At the limit, the older half is thinned out. */
export class Line {
  constructor() {
    this.x = new Float32Array(256);
    this.y = new Float32Array(256);
    this.length = 0;
  }

  push(x, y) {
    if (this.length === this.x.length) this.grow();
    this.x[this.length] = x;
    this.y[this.length] = y;
    this.length += 1;
    if (this.length >= POINTS_PER_LINE) this.thinOut();
  }

  grow() {
    for (const axis of ["x", "y"]) {
      const larger = new Float32Array(2 * this[axis].length);
      larger.set(this[axis]);
      this[axis] = larger;
    }
  }

  /** Keep the lowest and the highest of every four points of the older half, and all gaps. */
  thinOut() {
    const { x, y } = this;
    const half = (this.length >> 3) << 2;
    let kept = 0;
    const keep = (from) => {
      x[kept] = x[from];
      y[kept] = y[from];
      kept += 1;
    };
    for (let start = 0; start < half; start += 4) {
      let low = -1, high = -1, gap = -1;
      for (let i = start; i < start + 4; i += 1) {
        if (!Number.isFinite(y[i])) gap = gap < 0 ? i : gap;
        else {
          if (low < 0 || y[i] < y[low]) low = i;
          if (high < 0 || y[i] > y[high]) high = i;
        }
      }
      if (gap >= 0) low = gap;
      if (high < 0 || low === high) [low, high] = [start, start + 3];
      keep(Math.min(low, high));
      keep(Math.max(low, high));
    }
    for (let i = half; i < this.length; i += 1) keep(i);
    this.length = kept;
  }
}

/** The browser's side of the protocol in `_loss_feed.py`. */
export class CurveStore {
  constructor() {
    this.lines = new Map();
    this.next = 0; // number of points so far; an append must start here
    this.isComplete = false;
    this.incoming = null; // lines of an incomplete snapshot
  }

  /** Handle a message; return "draw", "ask" (request a snapshot) or "wait" (nothing to do). */
  receive(content, buffer) {
    if (content.kind === "snapshot") {
      const { part = 0, parts = 1 } = content;
      if (part === 0) this.incoming = { lines: new Map(), parts: 0 };
      if (this.incoming?.parts !== part) return "wait"; // a part was lost; the view requests the snapshot again
      this.add(buffer, this.incoming.lines);
      this.incoming.parts += 1;
      if (this.incoming.parts < parts) return "wait";
      this.lines = this.incoming.lines;
      this.incoming = null;
      this.next = content.count;
      this.isComplete = true;
      return "draw";
    }
    if (content.kind !== "append") return "wait";
    if (this.isComplete && content.start === this.next) {
      this.next += this.add(buffer);
      return "draw";
    }
    if (this.isComplete && content.start < this.next) return "wait"; // already in the snapshot
    const isNew = this.isComplete; // a gap; the view repeats its request until it is answered
    this.isComplete = false;
    return isNew ? "ask" : "wait";
  }

  /** Called when no view is left: mark the data as incomplete, so that the next view requests it. */
  forget() {
    this.isComplete = false;
  }

  add(buffer, lines = this.lines) {
    const view = new DataView(buffer.buffer ?? buffer, buffer.byteOffset ?? 0, buffer.byteLength);
    const count = Math.floor(buffer.byteLength / 12);
    for (let i = 0; i < count; i += 1) {
      const id = view.getFloat32(12 * i, true);
      let line = lines.get(id);
      if (!line) lines.set(id, (line = new Line()));
      line.push(view.getFloat32(12 * i + 4, true), view.getFloat32(12 * i + 8, true));
    }
    return count;
  }

  /** Ids of the lines of a quantity (0 is the loss): workers first, then mean and validation. */
  ids(quantity = 0) {
    const isOf = (id) => Math.max(0, Math.floor(id / LINES_APART)) === quantity;
    const ids = [...this.lines.keys()].filter((id) => id > EPOCH && isOf(id));
    return ids.sort((a, b) => (a < 0) - (b < 0) || Math.abs(a) - Math.abs(b));
  }
}

/** Detects whether the kernel still sends messages. Times are those of the page, in ms. */
export class Pulse {
  constructor(now) {
    this.looked = now;
    this.received(now);
  }

  /** Called for each message: the kernel is alive. */
  received(now) {
    this.last = now;
    this.isCut = false;
  }

  /** Called when the notebook closes the connection between widget and kernel. */
  cut() {
    this.isCut = true;
  }

  /** Return "alive", "silent" or "ended"; call it a few times per second. */
  look(now) {
    // The page was suspended (hidden tab, closed laptop): messages may still arrive.
    if (now - this.looked > SILENT_AFTER_MS / 2) this.last = now;
    this.looked = now;
    if (this.isCut) return "ended";
    return now - this.last > SILENT_AFTER_MS ? "silent" : "alive";
  }
}

/** Return the line with each x mapped by `of`. */
export function mapped(line, of) {
  const x = new Float64Array(line.length);
  for (let i = 0; i < line.length; i += 1) x[i] = of(line.x[i]);
  return { x, y: line.y, length: line.length };
}

/**
 * Return the line with the exponential moving average of y. `weight`, from 0 (unchanged) to below 1,
 * is the weight of a value after 1/500 of `span`, so the effect does not depend on the number of points.
 */
export function smoothed(line, weight, span) {
  if (!(weight > 0)) return line;
  const y = new Float64Array(line.length);
  let sum = 0, total = 0, last = 0;
  for (let i = 0; i < line.length; i += 1) {
    const value = line.y[i];
    y[i] = value;
    if (!Number.isFinite(value)) continue; // keep gaps, without extending them
    const kept = weight ** ((500 * Math.abs(line.x[i] - last)) / span);
    last = line.x[i];
    sum = kept * sum + value;
    total = kept * total + 1;
    y[i] = sum / total;
  }
  return { x: line.x, y, length: line.length };
}

/**
 * Lowest, highest and mean value of several lines by pixel column: [{ x, low, high, mean }] with x in
 * pixels, from `left` to `right`. In columns without a point, a line keeps its last value until it ends.
 */
export function bandOf(lines, toX, left, right, width = 2) {
  const columns = Math.max(1, Math.ceil((right - left) / width)) + 2; // and one on each side
  const used = new Set();
  const cellsOf = (line) => {
    const cells = []; // until the line ends
    for (let i = 0; i < line.length; i += 1) {
      const value = line.y[i];
      if (!Number.isFinite(value)) continue;
      const column = Math.floor((toX(line.x[i]) - left) / width) + 1;
      const at = Math.max(0, Math.min(columns - 1, column));
      // Outside of the plot, only the points next to its edges matter: the band extends to them.
      if (at === columns - 1 && cells[at]) continue;
      if (at === 0 || !cells[at]) cells[at] = { low: value, high: value, sum: 0, count: 0 };
      const cell = cells[at];
      if (value < cell.low) cell.low = value;
      if (value > cell.high) cell.high = value;
      cell.sum += value;
      cell.count += 1;
      used.add(at);
    }
    return cells;
  };
  const all = lines.map(cellsOf);
  const held = [];
  return [...used].sort((a, b) => a - b).map((at) => {
    all.forEach((cells, i) => (held[i] = cells[at] ?? (at < cells.length ? held[i] : undefined)));
    const known = held.filter(Boolean);
    return {
      x: left + (at - 0.5) * width,
      low: Math.min(...known.map(({ low }) => low)),
      high: Math.max(...known.map(({ high }) => high)),
      mean: known.reduce((sum, cell) => sum + cell.sum / cell.count, 0) / known.length,
    };
  });
}

/**
 * At most four points per pixel column: first, lowest, highest and last, in order. A gap (y or its
 * `toY` is not finite) becomes one NaN. Returns [x0, y0, x1, y1, …] in pixels.
 */
export function decimate(line, toX, toY) {
  const out = [];
  let column = NaN, first = 0, low = 0, high = 0, last = 0;
  const flush = () => {
    if (Number.isNaN(column)) return;
    let previous = -1;
    for (const i of [first, Math.min(low, high), Math.max(low, high), last]) {
      if (i !== previous) out.push(toX(line.x[i]), toY(line.y[i]));
      previous = i;
    }
    column = NaN;
  };
  for (let i = 0; i < line.length; i += 1) {
    if (!Number.isFinite(toY(line.y[i]))) {
      flush();
      if (out.length && !Number.isNaN(out[out.length - 1])) out.push(NaN, NaN);
      continue;
    }
    const here = Math.floor(toX(line.x[i]));
    if (here !== column) {
      flush();
      column = here;
      first = low = high = last = i;
      continue;
    }
    if (line.y[i] < line.y[low]) low = i;
    if (line.y[i] > line.y[high]) high = i;
    last = i;
  }
  flush();
  return out;
}

/** Index of the point with the nearest x, or -1; x may be unsorted, because workers restart. */
export function nearest(line, x) {
  let best = -1, distance = Infinity;
  for (let i = 0; i < line.length; i += 1) {
    const here = Math.abs(line.x[i] - x);
    if (here <= distance) [best, distance] = [i, here];
  }
  return best;
}

/**
 * [low, high] of the finite values of several lines, only positive ones if `isLog`, or null.
 * Only points with x `within` [left, right] count.
 */
export function extent(lines, axis, isLog = false, within = [-Infinity, Infinity]) {
  let low = Infinity, high = -Infinity;
  for (const line of lines) {
    for (let i = 0; i < line.length; i += 1) {
      const value = line[axis][i];
      if (!Number.isFinite(value) || (isLog && value <= 0)) continue;
      if (line.x[i] < within[0] || line.x[i] > within[1]) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : null;
}

/** The worker of a line of any quantity; MEAN and VALIDATION for themselves. */
export function workerOf(id) {
  const place = id < 0 ? id : id % LINES_APART;
  return place === LINES_APART - 1 ? VALIDATION : place;
}

/** Whether a line is of validation data, and the place of the line of its training data. */
export function lookOfPlace(id) {
  const place = workerOf(id);
  const isRuns = place >= VALIDATION_APART;
  return { place: isRuns ? place - VALIDATION_APART : place, isValidation: isRuns || place === VALIDATION };
}

/** Name of a line; `names` are those of runs if lines are runs instead of workers. */
export function lineName(id, meanName, names = []) {
  const { place, isValidation } = lookOfPlace(id);
  if (place === MEAN) return meanName;
  if (place === VALIDATION) return "validation";
  if (place === BAND) return "workers, lowest to highest";
  return (names[place] ?? `worker ${place}`) + (isValidation ? ", validation" : "");
}
