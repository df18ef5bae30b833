// Keys pressed in a part stay in it. JupyterLab in its command mode takes arrow keys and letters
// for its own, also those meant for a list of choices: they would move to other cells, or delete
// one. It listens at the document, so what stops at the part never gets there. The focus stays in
// the part too.

/** Whether a key is for the notebook, whatever has the focus: running a cell, menus, leaving. */
export function isForTheNotebook(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return true;
  return event.key === "Escape" || (event.key === "Enter" && event.shiftKey);
}

const keep = (event) => {
  if (!isForTheNotebook(event)) event.stopPropagation();
};

/**
 * Gives the focus back to a control that was disabled while it had it, as soon as it is enabled
 * again: a button that waits for what it began would leave the keyboard at the top of the page.
 * Nothing is taken from somebody who went elsewhere meanwhile. Returns a function that ends it.
 */
export function giveFocusBack(part) {
  const page = part.ownerDocument;
  let last = null;
  const came = (event) => {
    last = part.contains(event.target) ? event.target : null;
  };
  const left = (event) => {
    // A control that loses the focus by being disabled has not been left.
    if (event.target === last && !last.disabled) last = null;
  };
  const observer = new MutationObserver(() => {
    const isNowhere = !page.activeElement || page.activeElement === page.body;
    if (last && last.isConnected && !last.disabled && isNowhere) last.focus({ preventScroll: true });
  });
  page.addEventListener("focusin", came);
  page.addEventListener("focusout", left);
  observer.observe(part, { attributeFilter: ["disabled"], subtree: true });
  return () => {
    observer.disconnect();
    page.removeEventListener("focusin", came);
    page.removeEventListener("focusout", left);
  };
}

export default {
  render({ el }) {
    let part = null;
    let frame = 0;
    let endFocus = () => {};
    const listen = () => {
      part = el.closest(".sparkwright-part");
      if (part) {
        part.addEventListener("keydown", keep);
        endFocus = giveFocusBack(part);
      } else frame = requestAnimationFrame(listen); // not yet in the page
    };
    listen();
    return () => {
      cancelAnimationFrame(frame);
      endFocus();
      if (part) part.removeEventListener("keydown", keep);
    };
  },
};
