import assert from "node:assert/strict";
import test from "node:test";

import {
  nextRow, rowAction, scrollFor,
} from "../../../widgets/sparkwright_widgets/static/layer_list.mjs";

const press = (key, held = {}) => ({
  key, altKey: false, ctrlKey: false, metaKey: false, shiftKey: false, ...held,
});

test("arrows go one row on and stop at the ends", () => {
  assert.equal(nextRow("ArrowDown", 0, 3), 1);
  assert.equal(nextRow("ArrowDown", 2, 3), 2);
  assert.equal(nextRow("ArrowUp", 0, 3), 0);
});

test("without a row in hand, arrows begin at an end", () => {
  assert.equal(nextRow("ArrowDown", -1, 3), 0);
  assert.equal(nextRow("ArrowUp", -1, 3), 2);
});

test("pages and ends stay within the list", () => {
  assert.equal(nextRow("PageDown", 55, 60), 59);
  assert.equal(nextRow("PageUp", 4, 60), 0);
  assert.equal(nextRow("Home", 30, 60), 0);
  assert.equal(nextRow("End", 30, 60), 59);
});

test("other keys lead nowhere, and so does every key in an empty list", () => {
  assert.equal(nextRow("a", 1, 3), null);
  assert.equal(nextRow("Home", -1, 0), null);
});

test("only Alt with an arrow moves a row, and only Delete alone deletes it", () => {
  assert.equal(rowAction(press("ArrowUp", { altKey: true })), "up");
  assert.equal(rowAction(press("ArrowUp")), null);
  assert.equal(rowAction(press("ArrowUp", { altKey: true, ctrlKey: true })), null);
  assert.equal(rowAction(press("Delete")), "delete");
  assert.equal(rowAction(press("Delete", { shiftKey: true })), null);
  assert.equal(rowAction(press("Backspace")), null);
});

test("a list scrolls only as far as it must", () => {
  assert.equal(scrollFor(50, 20, 0, 100), 0);
  assert.equal(scrollFor(90, 20, 0, 100), 10);
  assert.equal(scrollFor(10, 20, 40, 100), 10);
});
