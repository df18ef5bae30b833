// Keep key presses and the focus inside a part. JupyterLab's command mode uses arrow keys and letters
// as shortcuts, even when a list has the focus: they would select or delete cells. Its listener is on
// the document, so stopping propagation at the part is enough.

/** Whether a key always belongs to the notebook: running a cell, menus, leaving the part. */
export function isForTheNotebook(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return true;
  return event.key === "Escape" || (event.key === "Enter" && event.shiftKey);
}

const keep = (event) => {
  if (!isForTheNotebook(event)) event.stopPropagation();
};

/**
 * Restore the focus of a control that was disabled while focused, once it is enabled again.
 * Otherwise, a button that is disabled during its task would move the focus to the top of the page.
 * The focus does not move if the user has focused another element. Returns a function that stops it.
 */
export function giveFocusBack(part) {
  const page = part.ownerDocument;
  let last = null;
  const came = (event) => {
    last = part.contains(event.target) ? event.target : null;
  };
  const left = (event) => {
    // A control that loses the focus because it is disabled was not left by the user.
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
