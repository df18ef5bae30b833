import assert from "node:assert/strict";
import test from "node:test";

import {
  CLOCK, CurveStore, EPOCH, LINES_APART, Line, MEAN, POINTS_PER_LINE, Pulse, VALIDATION, VALIDATION_APART, bandOf,
  decimate, extent, lineName, lookOfPlace, mapped, nearest, smoothed, workerOf,
} from "../../widgets/sparkwright_widgets/static/curve.mjs";
import {
  axesOf, epochMarks, linearTicks, logTicks, lossText, timeText, timeTicks, unitsOf, valueText, withBand, zoomed,
} from "../../widgets/sparkwright_widgets/static/axes.mjs";

const lineOf = (ys, xs = ys.map((_, i) => i)) => {
  const line = new Line();
  ys.forEach((y, i) => line.push(xs[i], y));
  return line;
};
const message = (kind, counter, ...points) => [
  { kind, [kind === "snapshot" ? "count" : "start"]: counter },
  new Float32Array(points.flat()),
];
const pairs = (flat) => flat.reduce((all, v, i) => (i % 2 ? all : [...all, [v, flat[i + 1]]]), []);
const same = (x) => x;

test("a column keeps its first, lowest, highest and last point, in order", () => {
  const line = lineOf([5, 9, 1, 4, 6, 3, 2], [0, 0.1, 0.2, 0.3, 0.9, 1.2, 1.5]);
  assert.deepEqual(pairs(decimate(line, same, same)).map(([, y]) => y), [5, 9, 1, 6, 3, 2]);
});

test("the number of points drawn depends on the columns, not on the run", () => {
  const line = lineOf(Array.from({ length: 8000 }, (_, i) => Math.sin(i)));
  assert.ok(decimate(line, (x) => x / 100, same).length <= 2 * 4 * 81);
});

test("a gap is one gap, never at the beginning, and does not raise", () => {
  const drawn = pairs(decimate(lineOf([NaN, 1, NaN, Infinity, 2, NaN]), same, same));
  assert.deepEqual(drawn.map(([, y]) => y), [1, NaN, 2, NaN]);
});

test("zero points and one point can be drawn", () => {
  assert.deepEqual(decimate(lineOf([]), same, same), []);
  assert.deepEqual(decimate(lineOf([3]), same, same), [0, 3]);
  assert.equal(nearest(lineOf([]), 1), -1);
  assert.equal(extent([lineOf([NaN])], "y"), null);
});

test("a worker that starts again may run backwards", () => {
  assert.equal(decimate(lineOf([1, 2, 3], [10, 20, 10]), same, same).length, 6);
});

test("a hundred thousand points stay bounded and keep extremes and gaps", () => {
  const line = new Line();
  for (let i = 0; i < 100_000; i += 1) line.push(i, i === 777 ? 50 : i === 1500 ? NaN : Math.random());
  assert.ok(line.length < POINTS_PER_LINE);
  assert.ok(line.x.length <= POINTS_PER_LINE);
  const kept = [...line.y.subarray(0, line.length)];
  assert.equal(Math.max(...kept.filter(Number.isFinite)), 50);
  assert.ok(kept.some(Number.isNaN));
  const x = [...line.x.subarray(0, line.length)];
  assert.ok(x.every((value, i) => i === 0 || value > x[i - 1]));
  assert.equal(x.at(-1), 99_999);
});

test("messages in order are drawn, and workers come before the mean", () => {
  const store = new CurveStore();
  assert.equal(store.receive(...message("snapshot", 2, [MEAN, 1, 2], [EPOCH, 1, 1])), "draw");
  assert.equal(store.receive(...message("append", 2, [1, 1, 2], [0, 1, 3])), "draw");
  assert.deepEqual(store.ids(), [0, 1, MEAN]);
  assert.equal(store.next, 4);
});

test("a gap asks once, waits for the snapshot and then goes on", () => {
  const store = new CurveStore();
  store.receive(...message("snapshot", 0));
  assert.equal(store.receive(...message("append", 5, [0, 6, 1])), "ask");
  assert.equal(store.receive(...message("append", 6, [0, 7, 1])), "wait");
  assert.equal(store.receive(...message("snapshot", 7, [0, 6, 1], [0, 7, 1])), "draw");
  assert.equal(store.receive(...message("append", 7, [0, 8, 1])), "draw");
  assert.equal(store.lines.get(0).length, 3);
});

test("an append that the snapshot already had is left out", () => {
  const store = new CurveStore();
  store.receive(...message("snapshot", 2, [0, 1, 1], [0, 2, 1]));
  assert.equal(store.receive(...message("append", 1, [0, 2, 1])), "wait");
  assert.equal(store.lines.get(0).length, 2);
});

test("a buffer may be a view into a larger one, at any offset", () => {
  const bytes = new Uint8Array(1 + 12);
  bytes.set(new Uint8Array(new Float32Array([0, 1, 2.5]).buffer), 1);
  const store = new CurveStore();
  store.receive({ kind: "snapshot", count: 1 }, new DataView(bytes.buffer, 1, 12));
  assert.equal(store.lines.get(0).y[0], 2.5);
});

test("ticks are round, few, and inside", () => {
  assert.deepEqual(linearTicks(0, 2.5, 5), [0, 0.5, 1, 1.5, 2, 2.5]);
  assert.deepEqual(logTicks(0.01, 10, 3), [0.01, 0.03, 0.1, 0.3, 1, 3, 10]);
  assert.deepEqual(linearTicks(1, 1, 5), [1]);
  for (const [low, high] of [[1e-9, 1e9], [0.2, 0.21], [3, 4000]]) {
    assert.ok(logTicks(low, high, 5).length < 16);
    assert.ok(linearTicks(low, high, 5).length < 12);
  }
});

test("losses read as in Python", () => {
  assert.deepEqual(
    [0.123456, 2.3, 21979.6, 0, 1.2e-7, NaN, Infinity].map(lossText),
    ["0.1235", "2.300", "21,980", "0", "1.2e-7", "nan", "inf"],
  );
});

test("each quantity has its own lines, named after their workers", () => {
  const store = new CurveStore();
  const [first, second] = [LINES_APART + 1, 5 * LINES_APART];
  const points = [[first, 1, 2], [0, 1, 2], [second, 1, 2], [MEAN, 1, 2], [VALIDATION, 1, 1], [EPOCH, 1, 1]];
  store.receive(...message("snapshot", 6, ...points));
  assert.deepEqual(store.ids(), [0, MEAN, VALIDATION]);
  assert.deepEqual([1, 2, 5].map((quantity) => store.ids(quantity)), [[first], [], [second]]);
  assert.deepEqual([first, second, MEAN].map(workerOf), [1, 0, MEAN]);
  assert.deepEqual([first, MEAN].map((id) => lineName(id, "mean of all")), ["worker 1", "mean of all"]);
});

test("validation data has a line in each quantity, and one for each run that is compared", () => {
  assert.equal(workerOf(3 * LINES_APART - 1), VALIDATION);
  assert.equal(lineName(3 * LINES_APART - 1, "mean"), "validation");
  assert.deepEqual(lookOfPlace(VALIDATION), { place: VALIDATION, isValidation: true });
  assert.deepEqual(lookOfPlace(LINES_APART + 2), { place: 2, isValidation: false });
  assert.deepEqual(lookOfPlace(LINES_APART + VALIDATION_APART + 2), { place: 2, isValidation: true });
  assert.equal(lineName(VALIDATION_APART + 1, "mean", ["a", "b"]), "b, validation");
  assert.equal(lineName(LINES_APART, "mean", ["a", "b"]), "a");
});

test("an axis shows its band whole, and the values too", () => {
  const band = { low: 1e-4, high: 1e-2 };
  assert.deepEqual(withBand([0.5, 2], band), [1e-4, 2]);
  assert.deepEqual(withBand(null, band), [1e-4, 1e-2]);
  assert.deepEqual(withBand([1e-3, 2e-3], band), [1e-4, 1e-2]);
  assert.deepEqual(withBand([3, 4], null), [3, 4]);
});

test("other values are written to three digits", () => {
  assert.deepEqual([0.0012345, 0, 123456, 1.5e-9, NaN].map(valueText), ["0.00123", "0", "123000", "1.5e-9", "nan"]);
});

test("a snapshot in parts is drawn when the last one is there, and a lost part is asked for", () => {
  const store = new CurveStore();
  const part = (number, ...points) => [
    { kind: "snapshot", count: 3, part: number, parts: 2 }, new Float32Array(points.flat()),
  ];
  assert.equal(store.receive(...part(1, [0, 3, 3])), "wait");
  assert.equal(store.receive(...part(0, [0, 1, 1], [0, 2, 2])), "wait");
  assert.equal(store.isComplete, false);
  assert.equal(store.receive(...part(1, [0, 3, 3])), "draw");
  assert.equal(store.receive(...message("append", 3, [0, 4, 4])), "draw");
  assert.equal(store.lines.get(0).length, 4);
});

test("a message of another kind is passed over", () => {
  assert.equal(new CurveStore().receive({ kind: "histogram" }, new ArrayBuffer(0)), "wait");
});

test("a silent kernel is noticed within five seconds, and recovers", () => {
  const pulse = new Pulse(0);
  const states = [];
  for (let now = 500; now <= 5000; now += 500) states.push(pulse.look(now));
  assert.deepEqual(states, [...Array(8).fill("alive"), "silent", "silent"]);
  pulse.received(5100);
  assert.equal(pulse.look(5500), "alive");
  pulse.cut();
  assert.equal(pulse.look(6000), "ended");
  pulse.received(6100);
  assert.equal(pulse.look(6500), "alive");
});

test("a page that slept itself does not report a lost kernel", () => {
  const pulse = new Pulse(0);
  pulse.look(500);
  assert.equal(pulse.look(3_600_000), "alive");
  for (let now = 3_600_500; now <= 3_604_000; now += 500) pulse.look(now);
  assert.equal(pulse.look(3_604_500), "silent");
});

test("smoothing begins at the first value, follows the trend and keeps gaps", () => {
  assert.deepEqual([...smoothed(lineOf([4, 4, 4]), 0.9, 500).y], [4, 4, 4]);
  const smooth = smoothed(lineOf([0, 10, NaN, 10]), 0.5, 500).y;
  assert.equal(smooth[0], 0);
  assert.ok(smooth[1] > 5 && smooth[1] < 10);
  assert.ok(Number.isNaN(smooth[2]));
  assert.ok(smooth[3] > smooth[1]);
  const line = lineOf([1, 2]);
  assert.equal(smoothed(line, 0, 500), line);
});

test("a line with few points is smoothed as one with many", () => {
  const xs = Array.from({ length: 1000 }, (_, i) => i);
  const many = smoothed(lineOf(xs.map((x) => x / 10)), 0.9, 2000);
  const few = smoothed(lineOf(xs.filter((x) => x % 5 === 4).map((x) => x / 10), xs.filter((x) => x % 5 === 4)), 0.9, 2000);
  assert.ok(Math.abs(many.y[999] - few.y[199]) < 0.5);
  assert.ok(99.9 - many.y[999] > 2);
});

test("a band goes from the lowest to the highest worker, with the mean", () => {
  const lines = [lineOf([1, 2, 3], [0, 10, 20]), lineOf([5, NaN, 7], [0, 10, 20])];
  const band = bandOf(lines, same, 0, 30, 2);
  assert.deepEqual(band.map(({ low, high }) => [low, high]), [[1, 5], [2, 5], [3, 7]]);
  assert.equal(band[0].mean, 3);
  assert.deepEqual(bandOf([], same, 0, 30), []);
});

test("a worker that ended no longer belongs to the band, and points outside stand at its edges", () => {
  const lines = [lineOf([1, 1, 1], [0, 10, 20]), lineOf([9], [0])];
  assert.deepEqual(bandOf(lines, same, 0, 30).map(({ high }) => high), [9, 1, 1]);
  const outside = bandOf([lineOf([7, 1, 2, 3, 8], [-90, -50, 5, 99, 100])], same, 0, 10);
  assert.deepEqual(outside.map(({ low, high }) => [low, high]), [[1, 1], [2, 2], [3, 3]]);
});

test("steps become epochs, also within the epoch that goes on", () => {
  const lines = new Map([
    [EPOCH, lineOf([1, 2, 3], [1, 11, 21])], [MEAN, lineOf([1], [25])], [CLOCK, lineOf([5], [1000])],
  ]);
  const of = unitsOf("epoch", lines, 2.4)(0);
  assert.deepEqual([0, 10, 15, 20, 25].map(of), [0, 1, 1.5, 2, 2.4]);
  assert.equal(unitsOf("epoch", lines, 0)(0)(25), 2); // not known yet
  assert.equal(unitsOf("step", lines, 0), null);
});

test("steps become seconds, by each run's own clock", () => {
  const lines = new Map([[CLOCK, lineOf([1, 3], [1, 2])], [CLOCK - 1, lineOf([10, 30], [1, 2])]]);
  const of = unitsOf("time", lines, 0);
  assert.deepEqual([0, 1].map((run) => of(run)(1.5)), [2, 20]);
  assert.equal(of(2), null);
  assert.deepEqual(axesOf(lines, true), ["step", "time"]);
  assert.deepEqual(axesOf(new Map([[EPOCH, lineOf([1])]]), false), ["step", "epoch"]);
  assert.deepEqual([...mapped(lineOf([7, 8], [1, 2]), (x) => 10 * x).x], [10, 20]);
});

test("there are at most ten epoch marks, and their labels do not overlap", () => {
  for (const epochs of [2, 7, 30, 60, 365, 5000]) {
    for (const width of [300, 1200]) {
      const line = lineOf(Array.from({ length: epochs }, (_, i) => i + 1));
      const marks = epochMarks(line, (x) => (x / epochs) * width, [0, width]);
      assert.ok(marks.length <= 10);
      assert.ok(marks.length > 0, `${epochs} epochs at ${width} pixels`);
      assert.ok(marks.every(({ x }, i) => !i || x - marks[i - 1].x >= 64));
    }
  }
  const close = epochMarks(lineOf([31, 32, 33]), (x) => 100 * x, [0, 300]);
  assert.deepEqual(close.map(({ epoch }) => epoch), [31, 32, 33]); // zoomed: each of them
});

test("zooming keeps the point under the cursor, and ends with the whole", () => {
  assert.deepEqual(zoomed([0, 100], 0.5, 50, [0, 100]), [25, 75]);
  assert.deepEqual(zoomed([0, 50], 0.5, 0, [0, 100]), [0, 25]);
  assert.equal(zoomed([25, 75], 2, 50, [0, 100]), null);
  assert.deepEqual(zoomed([80, 100], 2, 90, [0, 100]), [60, 100]);
});

test("times are written for the span that is shown", () => {
  assert.deepEqual(timeTicks(0, 60, 6), [0, 10, 20, 30, 40, 50, 60]);
  assert.deepEqual(timeTicks(0, 7200, 4), [0, 1800, 3600, 5400, 7200]);
  assert.deepEqual([[12, 60], [90, 600], [7500, 9000]].map((pair) => timeText(...pair)), ["12 s", "1:30", "2:05"]);
});
