// Which keys stay in a part, and which reach the notebook.
import assert from "node:assert/strict";
import { test } from "node:test";

import keys, { isForTheNotebook } from "../../widgets/sparkwright_widgets/static/keys.mjs";

const pressed = (key, more = {}) => ({ key, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...more });

test("arrows and letters stay in the part", () => {
  for (const key of ["ArrowDown", "d", "Enter", " "]) assert.equal(isForTheNotebook(pressed(key)), false);
});

test("running a cell, menus and leaving are for the notebook", () => {
  assert.ok(isForTheNotebook(pressed("Enter", { shiftKey: true })));
  assert.ok(isForTheNotebook(pressed("s", { ctrlKey: true })));
  assert.ok(isForTheNotebook(pressed("Escape")));
});

test("the part stops listening when its view is closed", () => {
  const listeners = new Set();
  const part = {
    addEventListener: (_name, call) => listeners.add(call),
    removeEventListener: (_name, call) => listeners.delete(call),
  };
  globalThis.cancelAnimationFrame = () => {};
  const close = keys.render({ el: { closest: () => part } });
  let stopped = 0;
  for (const call of listeners) call({ ...pressed("d"), stopPropagation: () => (stopped += 1) });
  assert.deepEqual([listeners.size, stopped], [1, 1]);
  close();
  assert.equal(listeners.size, 0);
});
