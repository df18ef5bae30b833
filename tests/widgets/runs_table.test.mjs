import assert from "node:assert/strict";
import { test } from "node:test";

import { agoText, sortedRows } from "../../widgets/sparkwright_widgets/static/runs_table.mjs";

test("how long ago something was is said in one unit", () => {
  assert.deepEqual(
    [0, 59, 60, 3599, 3600, 86400 * 3.5].map(agoText),
    ["just now", "just now", "1 min ago", "59 min ago", "1 h ago", "3 d ago"],
  );
});

test("rows are sorted, those without a value come last both ways", () => {
  const rows = [3, null, 1, undefined, 2].map((sort) => ({ cells: [{ sort }] }));
  assert.deepEqual(sortedRows(rows, 0, false), [2, 4, 0, 1, 3]);
  assert.deepEqual(sortedRows(rows, 0, true), [0, 4, 2, 1, 3]);
  const names = ["b", "a", "a"].map((sort) => ({ cells: [{ sort }] }));
  assert.deepEqual(sortedRows(names, 0, false), [1, 2, 0]);
});
