/**
 * Axes: units of x, positions of ticks and marks, number formats. No DOM.
 */

import { CLOCK, EPOCH, MEAN } from "./curve.mjs";

const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];

/** Linear interpolation of points with increasing x; constant outside of them. */
export function through(xs, ys, length = xs.length) {
  return (x) => {
    if (x <= xs[0]) return ys[0];
    if (x >= xs[length - 1]) return ys[length - 1];
    let [low, high] = [0, length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle;
      else high = middle;
    }
    return ys[low] + ((ys[high] - ys[low]) * (x - xs[low])) / (xs[high] - xs[low] || 1);
  };
}

/** The x axes that the received lines support: "step", "epoch", "time". */
export function axesOf(lines, isOfRuns) {
  const epochs = !isOfRuns && lines.has(EPOCH) ? ["epoch"] : [];
  return ["step", ...epochs, ...([...lines.keys()].some((id) => id <= CLOCK) ? ["time"] : [])];
}

/**
 * Conversion from steps to the axis's unit: a function of the run's number (0 for a single run)
 * that returns a function of a step, or null if that is unknown; null for steps.
 */
export function unitsOf(kind, lines, epochsDone) {
  if (kind === "time") {
    return (run) => {
      const clock = lines.get(CLOCK - run);
      return clock ? through(clock.x, clock.y, clock.length) : null;
    };
  }
  if (kind !== "epoch") return null;
  const epochs = lines.get(EPOCH);
  const [xs, ys] = [[], []];
  for (let i = 0; i < epochs.length; i += 1) {
    xs.push(epochs.x[i] - 1); // before an epoch's first minibatch
    ys.push(epochs.y[i] - 1);
  }
  const last = Math.max(...[...lines].filter(([id]) => id >= MEAN).map(([, line]) => line.x[line.length - 1]));
  if (last > xs.at(-1)) {
    xs.push(last);
    ys.push(Math.max(epochsDone, ys.at(-1))); // as reported by the kernel
  }
  const of = through(xs, ys);
  return () => of;
}

/**
 * The epochs to mark: every one, or every 2nd, 5th, 10th, …, so that at most `most` are within
 * [left, right], at least `apart` pixels from each other. Returns [{ x, epoch }], x in pixels.
 */
export function epochMarks(epochs, toX, [left, right], { most = 10, apart = 64 } = {}) {
  const all = [];
  for (let i = 0; i < epochs.length; i += 1) {
    const x = toX(epochs.x[i]);
    if (epochs.y[i] > 1 && x >= left && x <= right) all.push({ x, epoch: epochs.y[i] });
  }
  for (let power = 1; ; power *= 10) {
    for (const factor of [1, 2, 5]) {
      const marks = all.filter(({ epoch }) => epoch % (factor * power) === 0);
      const isClear = marks.every(({ x }, i) => i === 0 || x - marks[i - 1].x >= apart);
      if (marks.length <= most && isClear) return marks;
    }
  }
}

/** Scale the range [low, high] by `factor` around `at`, and keep it inside `all`. */
export function zoomed([low, high], factor, at, all) {
  const width = Math.min(all[1] - all[0], (high - low) * factor);
  const start = at - ((at - low) / (high - low)) * width;
  const left = Math.max(all[0], Math.min(all[1] - width, start));
  return width >= all[1] - all[0] ? null : [left, left + width];
}

/** About `wanted` round times between low and high, in seconds. */
export function timeTicks(low, high, wanted) {
  const rough = (high - low) / Math.max(1, wanted);
  if (rough < 1) return linearTicks(low, high, wanted);
  const step = SECONDS.find((seconds) => seconds >= rough * 0.7) ?? 86400 * Math.ceil(rough / 86400);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9) || 0; i * step <= high; i += 1) ticks.push(i * step);
  return ticks;
}

/** Format seconds for an axis that spans `span` seconds: `12 s`, `1:30` or `2:05`. */
export function timeText(seconds, span) {
  if (span < 120) return `${Number(seconds.toPrecision(4))} s`;
  const [large, small] = span < 7200 ? [60, 1] : [3600, 60];
  const rest = Math.floor((Math.round(seconds) % large) / small);
  return `${Math.floor(Math.round(seconds) / large)}:${String(rest).padStart(2, "0")}`;
}

/** Label of the axis. */
export function axisName(kind, span) {
  if (kind === "epoch") return "epochs";
  if (kind !== "time") return "minibatches of each worker";
  return `time since the start${span < 120 ? "" : span < 7200 ? " (min:s)" : " (h:min)"}`;
}

/** About `wanted` round numbers between low and high. */
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

/** Powers of ten, and their multiples by 2 and 5 where there is room. */
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

/** Format a loss with four digits, like `_format.loss_text`. */
export function lossText(value) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 1e-3 || size >= 1e15) return String(Number(value.toPrecision(4))).replace("e+", "e");
  const digits = size <= 1 ? 4 : Math.max(0, 3 - Math.floor(Math.log10(size)));
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Format any other value with three digits. */
export function valueText(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(3))) : lossText(value);
}

/** Format a tick label, without trailing zeros. */
export function tickText(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential().replace("e+", "e");
  return value.toLocaleString("en-US", { maximumSignificantDigits: 6 });
}

/** Range of values that an axis must show: the lines, and the band if there is one. */
export function withBand(values, band) {
  if (!band) return values;
  const [low, high] = values ?? [band.low, band.high];
  return [Math.min(low, band.low), Math.max(high, band.high)];
}
