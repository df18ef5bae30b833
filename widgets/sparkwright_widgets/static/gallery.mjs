/** Preset networks as buttons with pictures. Python creates and escapes their HTML. */
export default {
  render({ model, el }) {
    const gallery = document.createElement("div");
    gallery.className = "sparkwright-gallery";
    gallery.setAttribute("role", "group");
    gallery.setAttribute("aria-label", "Presets");
    el.append(gallery);
    const draw = () => {
      const focused = document.activeElement?.dataset?.name;
      gallery.replaceChildren(...model.get("cards").map(({ name, html, fits }) => {
        const button = document.createElement("button");
        button.type = "button";
        button.className = `sparkwright-preset${fits ? " sparkwright-preset-fits" : ""}`;
        button.dataset.name = name;
        button.innerHTML = html;
        button.addEventListener("click", () => model.send({ kind: "take", name }));
        return button;
      }));
      if (focused) gallery.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus();
    };
    model.on("change:cards", draw);
    draw();
    return () => model.off("change:cards", draw);
  },
};
