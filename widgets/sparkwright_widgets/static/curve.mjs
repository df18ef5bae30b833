/**
 * The data side of the loss chart: what was received, and what of it is worth drawing.
 * No DOM in here; tests/widgets/curve.test.mjs runs it under `node --test`.
 * The numbers of the lines are those of `_curve.py`.
 */

export const MEAN = -1, VALIDATION = -2, EPOCH = -3;
export const POINTS_PER_LINE = 8192;
// Further quantities have lines with the workers' numbers plus a multiple of this, as in
// `_quantities.py`; the last place is that of the validation data.
export const LINES_APART = 65536;
// In a chart of several runs: the validation data's lines are so far from those of their runs.
export const VALIDATION_APART = 32768;
const APPENDS_BEFORE_ASKING_AGAIN = 25; // about five seconds

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
    this.ignored = 0;
  }

  /** Take a message; returns "draw", "ask" (say hello to Python) or "wait" (nothing to do). */
  receive(content, buffer) {
    if (content.kind === "snapshot") {
      this.lines = new Map();
      this.add(buffer);
      this.next = content.count;
      this.isComplete = true;
      this.ignored = 0;
      return "draw";
    }
    if (content.kind !== "append") return "wait";
    if (this.isComplete && content.start === this.next) {
      this.next += this.add(buffer);
      return "draw";
    }
    if (this.isComplete && content.start < this.next) return "wait"; // the snapshot had it already
    const mustAsk = this.isComplete || this.ignored >= APPENDS_BEFORE_ASKING_AGAIN;
    this.isComplete = false;
    this.ignored = mustAsk ? 0 : this.ignored + 1;
    return mustAsk ? "ask" : "wait";
  }

  /** Nobody looks: forget that the data is complete, so that the next view asks for it. */
  forget() {
    this.isComplete = false;
    this.ignored = 0;
  }

  add(buffer) {
    const view = new DataView(buffer.buffer ?? buffer, buffer.byteOffset ?? 0, buffer.byteLength);
    const count = Math.floor(buffer.byteLength / 12);
    for (let i = 0; i < count; i += 1) {
      const id = view.getFloat32(12 * i, true);
      let line = this.lines.get(id);
      if (!line) this.lines.set(id, (line = new Line()));
      line.push(view.getFloat32(12 * i + 4, true), view.getFloat32(12 * i + 8, true));
    }
    return count;
  }

  /** Ids of the lines of a quantity (0 is the loss): workers first, then mean and validation. */
  ids(quantity = 0) {
    const isOf = (id) => Math.max(0, Math.floor(id / LINES_APART)) === quantity;
    const ids = [...this.lines.keys()].filter((id) => id !== EPOCH && isOf(id));
    return ids.sort((a, b) => (a < 0) - (b < 0) || Math.abs(a) - Math.abs(b));
  }
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

/** [low, high] of the finite values of several lines (only positive ones if `isLog`), or null. */
export function extent(lines, axis, isLog = false) {
  let low = Infinity, high = -Infinity;
  for (const line of lines) {
    for (let i = 0; i < line.length; i += 1) {
      const value = line[axis][i];
      if (!Number.isFinite(value) || (isLog && value <= 0)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : null;
}

/** Round numbers between low and high, about `wanted` of them. */
export function linearTicks(low, high, wanted) {
  const rough = (high - low) / Math.max(1, wanted);
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.7);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) {
    ticks.push(Number((i * step).toPrecision(12)));
  }
  return ticks;
}

/** Powers of ten, with 2 and 5 between them where there is room. */
export function logTicks(low, high, wanted) {
  const decades = Math.log10(high / low);
  const factors = decades > wanted ? [1] : decades > wanted / 3 ? [1, 3] : [1, 2, 5];
  const every = Math.max(1, Math.ceil(decades / wanted));
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += every) {
    for (const factor of factors) {
      const tick = Number((factor * 10 ** power).toPrecision(12));
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  }
  return ticks;
}

/** A loss to four digits, as `_format.loss_text` writes it. */
export function lossText(value) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 1e-3 || size >= 1e15) return String(Number(value.toPrecision(4))).replace("e+", "e");
  const digits = size <= 1 ? 4 : Math.max(0, 3 - Math.floor(Math.log10(size)));
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Any other value, to three digits. */
export function valueText(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(3))) : lossText(value);
}

/** What a tick on the axis says: short, no trailing zeros. */
export function tickText(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential().replace("e+", "e");
  return value.toLocaleString("en-US", { maximumSignificantDigits: 6 });
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
  return (names[place] ?? `worker ${place}`) + (isValidation ? ", validation" : "");
}

/** The values that an axis has to show: those of the lines, and the band if there is one. */
export function withBand(values, band) {
  if (!band) return values;
  const [low, high] = values ?? [band.low, band.high];
  return [Math.min(low, band.low), Math.max(high, band.high)];
}
