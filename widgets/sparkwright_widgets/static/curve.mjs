/**
 * The data side of the chart: what was received, and what of it is worth drawing.
 * No DOM in here; tests/widgets/curve.test.mjs runs it under `node --test`.
 * The numbers of the lines are those of `_curve.py`.
 */

export const MEAN = -1, VALIDATION = -2, EPOCH = -3;
export const BAND = -8; // drawn for all workers together; no such line is received
export const CLOCK = -16; // of run number k, where several are compared: CLOCK - k
export const POINTS_PER_LINE = 8192;
// Further quantities have lines with the workers' numbers plus a multiple of this, as in
// `_quantities.py`; the last place is that of the validation data.
export const LINES_APART = 65536;
// In a chart of several runs: the validation data's lines are so far from those of their runs.
export const VALIDATION_APART = 32768;
export const SILENT_AFTER_MS = 4000; // the kernel sends a heartbeat each second

/** The points of one line. Bounded: the older half is thinned out whenever the limit is reached. */
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

  /** Of every four points of the older half keep the lowest and the highest; a gap stays a gap. */
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

/** The browser's half of the protocol described in `_loss_feed.py`. */
export class CurveStore {
  constructor() {
    this.lines = new Map();
    this.next = 0; // points known of; an append must start here
    this.isComplete = false;
    this.incoming = null; // the lines of a snapshot, of which more parts are to come
  }

  /** Take a message; returns "draw", "ask" (say hello to Python) or "wait" (nothing to do). */
  receive(content, buffer) {
    if (content.kind === "snapshot") {
      const { part = 0, parts = 1 } = content;
      if (part === 0) this.incoming = { lines: new Map(), parts: 0 };
      if (this.incoming?.parts !== part) return "wait"; // a part was lost; the view asks again
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
    if (this.isComplete && content.start < this.next) return "wait"; // the snapshot had it already
    const isNew = this.isComplete; // a gap; what asks again until there is an answer is the view
    this.isComplete = false;
    return isNew ? "ask" : "wait";
  }

  /** Nobody looks: forget that the data is complete, so that the next view asks for it. */
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

/** Whether the kernel still sends something. Times are the page's, in ms. */
export class Pulse {
  constructor(now) {
    this.looked = now;
    this.received(now);
  }

  /** A message arrived: the kernel is alive, whatever the state before. */
  received(now) {
    this.last = now;
    this.isCut = false;
  }

  /** The notebook dropped the connection between widget and kernel. */
  cut() {
    this.isCut = true;
  }

  /** "alive", "silent" or "ended"; to be asked a few times a second. */
  look(now) {
    // The page itself slept, as hidden tabs and closed laptops do: messages may be on their way.
    if (now - this.looked > SILENT_AFTER_MS / 2) this.last = now;
    this.looked = now;
    if (this.isCut) return "ended";
    return now - this.last > SILENT_AFTER_MS ? "silent" : "alive";
  }
}

/** The same line with x in other units; `of` maps one x. */
export function mapped(line, of) {
  const x = new Float64Array(line.length);
  for (let i = 0; i < line.length; i += 1) x[i] = of(line.x[i]);
  return { x, y: line.y, length: line.length };
}

/**
 * The same line with the exponential moving average of y. `weight`, from 0 (as it is) to below 1, is
 * what a value still counts after 1/500 of `span`: so lines with few points are smoothed as others.
 */
export function smoothed(line, weight, span) {
  if (!(weight > 0)) return line;
  const y = new Float64Array(line.length);
  let sum = 0, total = 0, last = 0;
  for (let i = 0; i < line.length; i += 1) {
    const value = line.y[i];
    y[i] = value;
    if (!Number.isFinite(value)) continue; // a gap stays one, and does not spread
    const kept = weight ** ((500 * Math.abs(line.x[i] - last)) / span);
    last = line.x[i];
    sum = kept * sum + value;
    total = kept * total + 1;
    y[i] = sum / total;
  }
  return { x: line.x, y, length: line.length };
}

/**
 * Lowest, highest and mean value of several lines, column by column: [{ x, low, high, mean }] with x
 * in pixels, from `left` to `right`. A line without a point in a column keeps its last value there,
 * up to its end.
 */
export function bandOf(lines, toX, left, right, width = 2) {
  const columns = Math.max(1, Math.ceil((right - left) / width)) + 2; // and one at either side
  const used = new Set();
  const cellsOf = (line) => {
    const cells = []; // up to the line's end
    for (let i = 0; i < line.length; i += 1) {
      const value = line.y[i];
      if (!Number.isFinite(value)) continue;
      const column = Math.floor((toX(line.x[i]) - left) / width) + 1;
      const at = Math.max(0, Math.min(columns - 1, column));
      // Of what lies outside, only the points next to the edges: the band goes on towards them.
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
 * At most four points a pixel column: the first, lowest, highest and last, in order; a gap (y not
 * finite, or `toY` of it not finite) becomes one NaN. Returns [x0, y0, x1, y1, …] in pixels.
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

/** Index of the point whose x is nearest, or -1; x need not be sorted (a worker that restarts). */
export function nearest(line, x) {
  let best = -1, distance = Infinity;
  for (let i = 0; i < line.length; i += 1) {
    const here = Math.abs(line.x[i] - x);
    if (here <= distance) [best, distance] = [i, here];
  }
  return best;
}

/**
 * [low, high] of the finite values of several lines (only positive ones if `isLog`), or null; of
 * points whose x lies `within` [left, right].
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

/** The worker that a line belongs to, whatever it shows; MEAN and VALIDATION stay what they are. */
export function workerOf(id) {
  const place = id < 0 ? id : id % LINES_APART;
  return place === LINES_APART - 1 ? VALIDATION : place;
}

/** Whether a line is the validation data's, and of which place its training data's is. */
export function lookOfPlace(id) {
  const place = workerOf(id);
  const isRuns = place >= VALIDATION_APART;
  return { place: isRuns ? place - VALIDATION_APART : place, isValidation: isRuns || place === VALIDATION };
}

/** What a line is called; `names` are those of runs, where the lines are no workers. */
export function lineName(id, meanName, names = []) {
  const { place, isValidation } = lookOfPlace(id);
  if (place === MEAN) return meanName;
  if (place === VALIDATION) return "validation";
  if (place === BAND) return "workers, lowest to highest";
  return (names[place] ?? `worker ${place}`) + (isValidation ? ", validation" : "");
}
