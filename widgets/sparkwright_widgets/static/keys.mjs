// Keys pressed in a part stay in it. JupyterLab in its command mode takes arrow keys and letters
// for its own, also those meant for a list of choices: they would move to other cells, or delete
// one. It listens at the document, so what stops at the part never gets there.

/** Whether a key is for the notebook, whatever has the focus: running a cell, menus, leaving. */
export function isForTheNotebook(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return true;
  return event.key === "Escape" || (event.key === "Enter" && event.shiftKey);
}

const keep = (event) => {
  if (!isForTheNotebook(event)) event.stopPropagation();
};

export default {
  render({ el }) {
    let part = null;
    let frame = 0;
    const listen = () => {
      part = el.closest(".sparkwright-part");
      if (part) part.addEventListener("keydown", keep);
      else frame = requestAnimationFrame(listen); // not yet in the page
    };
    listen();
    return () => {
      cancelAnimationFrame(frame);
      if (part) part.removeEventListener("keydown", keep);
    };
  },
};
