// Which keys stay in a part, and which reach the notebook; where the focus goes.
import assert from "node:assert/strict";
import { test } from "node:test";

import keys, { giveFocusBack, isForTheNotebook } from "../../widgets/sparkwright_widgets/static/keys.mjs";

const pressed = (key, more = {}) => ({ key, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...more });

test("arrows and letters stay in the part", () => {
  for (const key of ["ArrowDown", "d", "Enter", " "]) assert.equal(isForTheNotebook(pressed(key)), false);
});

test("running a cell, menus and leaving are for the notebook", () => {
  assert.ok(isForTheNotebook(pressed("Enter", { shiftKey: true })));
  assert.ok(isForTheNotebook(pressed("s", { ctrlKey: true })));
  assert.ok(isForTheNotebook(pressed("Escape")));
});

/** Something that listens, and tells its listeners. */
class Listening {
  listeners = new Set();

  addEventListener(name, call) {
    this.listeners.add([name, call]);
  }

  removeEventListener(name, call) {
    for (const each of this.listeners) if (each[0] === name && each[1] === call) this.listeners.delete(each);
  }

  tell(name, event) {
    for (const [heard, call] of this.listeners) if (heard === name) call(event);
  }
}

/** A part with two buttons on a page whose focus can be moved. */
function shown() {
  const page = new Listening();
  page.body = page.activeElement = {};
  const part = new Listening();
  part.ownerDocument = page;
  const button = () => ({
    disabled: false,
    isConnected: true,
    focus() {
      if (page.activeElement !== page.body) page.tell("focusout", { target: page.activeElement });
      page.activeElement = this;
      page.tell("focusin", { target: this });
    },
  });
  const [own, other, outside] = [button(), button(), button()];
  part.contains = (target) => target === own || target === other;
  let changed = null;
  globalThis.MutationObserver = class {
    constructor(call) {
      changed = call;
    }
    observe() {}
    disconnect() {
      changed = () => {};
    }
  };
  /** As browsers do it: a disabled control has no focus any more. */
  const disable = (control, disabled) => {
    control.disabled = disabled;
    if (disabled && page.activeElement === control) page.activeElement = page.body;
    changed();
  };
  return { page, part, own, other, outside, disable };
}

test("a button that was disabled gets the focus back when it is enabled again", () => {
  const { page, part, own, disable } = shown();
  giveFocusBack(part);
  own.focus();
  disable(own, true);
  assert.equal(page.activeElement, page.body);
  disable(own, false);
  assert.equal(page.activeElement, own);
});

test("the focus is not taken from where somebody went meanwhile, nor given to what was left", () => {
  const { page, part, own, other, outside, disable } = shown();
  giveFocusBack(part);
  for (const elsewhere of [other, outside]) {
    own.focus();
    disable(own, true);
    elsewhere.focus();
    disable(own, false);
    assert.equal(page.activeElement, elsewhere);
  }
  own.focus();
  page.tell("focusout", { target: own });
  page.activeElement = page.body;
  disable(own, true);
  disable(own, false);
  assert.equal(page.activeElement, page.body);
});

test("the part stops listening when its view is closed", () => {
  const { page, part } = shown();
  globalThis.cancelAnimationFrame = () => {};
  const close = keys.render({ el: { closest: () => part } });
  let stopped = 0;
  part.tell("keydown", { ...pressed("d"), stopPropagation: () => (stopped += 1) });
  assert.deepEqual([part.listeners.size, stopped], [1, 1]);
  assert.ok(page.listeners.size > 0);
  close();
  assert.deepEqual([part.listeners.size, page.listeners.size], [0, 0]);
});
