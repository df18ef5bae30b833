import assert from "node:assert/strict";
import test from "node:test";

import {
  CurveStore, EPOCH, LINES_APART, Line, MEAN, POINTS_PER_LINE, VALIDATION, VALIDATION_APART, decimate, extent, lineName,
  linearTicks, logTicks, lookOfPlace, lossText, nearest, valueText, withBand, workerOf,
} from "../../widgets/sparkwright_widgets/static/curve.mjs";

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

test("an answer that never comes is asked for again", () => {
  const store = new CurveStore();
  const answers = Array.from({ length: 30 }, (_, i) => store.receive(...message("append", i, [0, i, 1])));
  assert.equal(answers.filter((answer) => answer === "ask").length, 1);
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
