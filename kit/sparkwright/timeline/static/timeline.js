"use strict";
// Draws the lanes of a timeline and lets one zoom into them. Every row of lanes is first summed up
// to shares of each phase by pixel column, then painted: the picture costs the same however many
// spans lie behind a pixel.
(() => {
  const data = JSON.parse(document.getElementById("timeline-data").textContent);
  const canvas = document.getElementById("timeline-lanes");
  const brush = document.getElementById("timeline-brush");
  const readout = document.getElementById("timeline-readout");
  const legend = document.getElementById("timeline-legend");
  const context = canvas.getContext("2d");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const phases = data.phases;
  const rows = data.labels.length;
  const hidden = phases.map(() => false);
  const AXIS = 24;
  const LEAST_ROW = 18; // pixels in which shares can be told apart
  let view = { from: 0, to: data.elapsed, top: 0, bottom: rows };
  let labelWidth = 0;

  const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const numbers = (text) => new Uint32Array(bytesOf(text).buffer);
  const pieces = {
    first: numbers(data.first),
    phase: bytesOf(data.phase),
    share: bytesOf(data.share),
    start: numbers(data.start),
    length: numbers(data.length),
    tick: data.tick_s,
  };

  // --- sums

  // Adds a piece of time, `weight` of which is spent in a phase, to shares by column.
  const add = (shares, columns, phase, start, stop, weight) => {
    const from = Math.max(0, start);
    const to = Math.min(columns, stop);
    if (!(to > from)) return;
    const first = Math.floor(from);
    const last = Math.min(Math.floor(to), columns - 1);
    const at = phase * columns;
    if (first === last) {
      shares[at + first] += (to - from) * weight;
      return;
    }
    shares[at + first] += (first + 1 - from) * weight;
    for (let column = first + 1; column < last; column += 1) shares[at + column] += weight;
    shares[at + last] += (to - last) * weight;
  };

  // Shares of each phase in [from, to) of rows [top, bottom), by column.
  const sharesOf = (top, bottom, from, to, columns) => {
    const shares = new Float32Array(phases.length * columns);
    const scale = columns / (to - from);
    const part = 1 / (bottom - top);
    for (let row = top; row < bottom; row += 1) {
      for (let index = pieces.first[row]; index < pieces.first[row + 1]; index += 1) {
        const phase = pieces.phase[index];
        if (hidden[phase]) continue;
        const start = pieces.start[index] * pieces.tick;
        const stop = start + pieces.length[index] * pieces.tick;
        const weight = (part * pieces.share[index]) / 255;
        add(shares, columns, phase, (start - from) * scale, (stop - from) * scale, weight);
      }
    }
    return shares;
  };

  // --- painting

  const rgb = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  const packed = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;

  const paintRow = (pixels, width, shares, y, height, colors) => {
    for (let x = 0; x < width; x += 1) {
      let filled = 0;
      let painted = 0;
      for (let phase = 0; phase < phases.length; phase += 1) {
        const share = shares[phase * width + x];
        if (!share) continue;
        if (phases[phase].encloses) {
          for (let line = height - 2; line < height; line += 1)
            pixels[(y + line) * width + x] = colors[phase];
          continue;
        }
        filled += share;
        const until = Math.min(height - 2, Math.round(filled * (height - 2)));
        // From the bottom up, above the line of what encloses.
        for (; painted < until; painted += 1)
          pixels[(y + height - 3 - painted) * width + x] = colors[phase];
      }
    }
  };

  const clock = (seconds, step) => {
    if (data.elapsed < 120) {
      const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step) - 1e-9)));
      return `${seconds.toFixed(digits)} s`;
    }
    const sign = seconds < 0 ? "-" : "";
    const whole = Math.abs(seconds);
    const digits = step < 1 ? Math.min(6, Math.ceil(-Math.log10(step) - 1e-9)) : 0;
    const rest = (whole % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
    const minutes = Math.floor(whole / 60);
    if (minutes < 60) return `${sign}${minutes}:${rest}`;
    return `${sign}${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
  };
  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
  const niceStep = (least) => {
    const found = STEPS.find((step) => step >= least);
    if (least > 1) return found || 86400 * Math.ceil(least / 86400);
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least);
  };

  const geometry = () => {
    const width = canvas.clientWidth;
    const visible = view.bottom - view.top;
    const plot = Math.round(Math.min(560, Math.max(60, visible * 24)));
    const left = Math.min(labelWidth, width * 0.35);
    return { width, plot, left, plotWidth: Math.max(10, width - left - 8) };
  };

  // Rows of lanes [top, bottom): one lane each, or several where there is no room for all.
  const groups = (plot) => {
    const visible = view.bottom - view.top;
    const room = Math.max(2, Math.floor(plot / LEAST_ROW));
    if (visible <= room) return Array.from({ length: visible }, (_, row) => [view.top + row, view.top + row + 1]);
    // The driver is no worker: it has a row of its own.
    const first = Math.max(1, view.top);
    const found = first > view.top ? [[view.top, first]] : [];
    const count = room - found.length;
    for (let place = 0; place < count; place += 1) {
      const top = first + Math.floor((place * (view.bottom - first)) / count);
      found.push([top, first + Math.floor(((place + 1) * (view.bottom - first)) / count)]);
    }
    return found;
  };
  const nameOf = ([top, bottom]) =>
    bottom - top === 1
      ? data.labels[top]
      : `workers ${data.ranges[top][0]}–${data.ranges[bottom - 1][1]}`;

  const draw = () => {
    const style = getComputedStyle(document.documentElement);
    const text = style.getPropertyValue("--text").trim();
    const line = style.getPropertyValue("--line").trim();
    const plate = style.getPropertyValue("--plate").trim();
    const ratio = window.devicePixelRatio || 1;
    context.font = "12px system-ui, sans-serif";
    const names = groups(geometry().plot).map(nameOf);
    labelWidth = 14 + Math.max(...names.map((name) => context.measureText(name).width));
    const { width, plot, left, plotWidth } = geometry();
    canvas.style.height = `${plot + AXIS}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round((plot + AXIS) * ratio);
    const columns = Math.round(plotWidth * ratio);
    const lines = Math.round(plot * ratio);
    const image = new ImageData(columns, lines);
    const pixels = new Uint32Array(image.data.buffer);
    pixels.fill(packed(rgb(plate)));
    const colors = phases.map((phase) => packed(rgb(dark.matches ? phase.dark : phase.color)));
    const shown = groups(plot);
    shown.forEach(([top, bottom], place) => {
      const y = Math.floor((place * lines) / shown.length);
      const next = Math.floor(((place + 1) * lines) / shown.length);
      const shares = sharesOf(top, bottom, view.from, view.to, columns);
      paintRow(pixels, columns, shares, y, next - y - Math.max(1, Math.round(2 * ratio)), colors);
    });
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.putImageData(image, Math.round(left * ratio), Math.round(AXIS * ratio));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = text;
    context.textBaseline = "middle";
    shown.forEach((group, place) => {
      const y = AXIS + ((place + 0.5) * plot) / shown.length;
      context.fillText(nameOf(group), 0, y, left - 6);
    });
    const step = niceStep(((view.to - view.from) * 90) / plotWidth);
    context.strokeStyle = line;
    context.textAlign = "center";
    for (let tick = Math.ceil(view.from / step) * step; tick <= view.to * (1 + 1e-12); tick += step) {
      const x = left + ((tick - view.from) * plotWidth) / (view.to - view.from);
      context.beginPath();
      context.moveTo(x, AXIS - 5);
      context.lineTo(x, AXIS);
      context.stroke();
      const name = clock(tick, step);
      const half = context.measureText(name).width / 2;
      context.fillText(name, Math.min(Math.max(x, left + half), width - half), AXIS - 13);
    }
    context.textAlign = "start";
  };
  let waiting = false;
  const redraw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  };

  // --- moving about

  const told = () => {
    const step = (view.to - view.from) / 100;
    const lanes =
      rows > 1 && view.bottom - view.top < rows
        ? `, ${data.labels[view.top]} to ${data.labels[view.bottom - 1]}`
        : "";
    readout.textContent = `Shown: ${clock(view.from, step)} to ${clock(view.to, step)}${lanes}.`;
  };
  const show = (changes) => {
    const next = { ...view, ...changes };
    const least = Math.max(data.elapsed * 1e-7, 1e-6);
    const length = Math.min(data.elapsed, Math.max(least, next.to - next.from));
    next.from = Math.min(Math.max(0, next.from), data.elapsed - length);
    next.to = next.from + length;
    const count = Math.min(rows, Math.max(1, Math.round(next.bottom - next.top)));
    next.top = Math.min(Math.max(0, Math.round(next.top)), rows - count);
    next.bottom = next.top + count;
    view = next;
    told();
    redraw();
  };
  const zoom = (factor, at = (view.from + view.to) / 2) =>
    show({ from: at - (at - view.from) * factor, to: at + (view.to - at) * factor });
  const pan = (share) => {
    const by = (view.to - view.from) * share;
    show({ from: view.from + by, to: view.to + by });
  };
  const zoomLanes = (factor) => {
    const count = Math.max(1, Math.round((view.bottom - view.top) * factor));
    show({ bottom: view.top + count });
  };
  const panLanes = (share) => {
    const by = Math.max(1, Math.round((view.bottom - view.top) * Math.abs(share))) * Math.sign(share);
    show({ top: view.top + by, bottom: view.bottom + by });
  };
  const whole = () => show({ from: 0, to: data.elapsed, top: 0, bottom: rows });
  const ACTIONS = {
    "zoom-in": () => zoom(0.5),
    "zoom-out": () => zoom(2),
    earlier: () => pan(-0.5),
    later: () => pan(0.5),
    "fewer-lanes": () => zoomLanes(0.5),
    "more-lanes": () => zoomLanes(2),
    whole,
  };
  const KEYS = {
    "+": ACTIONS["zoom-in"],
    "=": ACTIONS["zoom-in"],
    "-": ACTIONS["zoom-out"],
    0: whole,
    ArrowLeft: () => pan(-0.25),
    ArrowRight: () => pan(0.25),
    ArrowUp: () => panLanes(-0.25),
    ArrowDown: () => panLanes(0.25),
    "[": ACTIONS["fewer-lanes"],
    "]": ACTIONS["more-lanes"],
  };
  document.querySelectorAll("[data-action]").forEach((button) => {
    button.addEventListener("click", ACTIONS[button.dataset.action]);
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
    event.preventDefault();
    KEYS[event.key]();
  });

  const placeOf = (event) => {
    const box = canvas.getBoundingClientRect();
    const { left, plot, plotWidth } = geometry();
    const shown = groups(plot);
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    const share = Math.min(1, Math.max(0, (x - left) / plotWidth));
    const place = Math.floor(((y - AXIS) * shown.length) / plot);
    return {
      x: left + share * plotWidth,
      y: Math.min(plot + AXIS, Math.max(AXIS, y)),
      time: view.from + share * (view.to - view.from),
      lanes: shown[Math.min(shown.length - 1, Math.max(0, place))],
    };
  };
  const length = (seconds) =>
    seconds >= 60
      ? `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`
      : seconds >= 1
        ? `${Number(seconds.toPrecision(3))} s`
        : seconds >= 1e-3
          ? `${Number((seconds * 1e3).toPrecision(3))} ms`
          : `${Number((seconds * 1e6).toPrecision(3))} µs`;
  const describe = ({ time, lanes }) => {
    const [row, end] = lanes;
    const pixel = (view.to - view.from) / geometry().plotWidth;
    const at = clock(time, pixel);
    const found = [];
    if (data.exact && end === row + 1) {
      for (let index = pieces.first[row]; index < pieces.first[row + 1]; index += 1) {
        const start = pieces.start[index] * pieces.tick;
        const lasts = pieces.length[index] * pieces.tick;
        const near = start <= time + pixel / 2 && start + lasts >= time - pixel / 2;
        if (near && !hidden[pieces.phase[index]])
          found.push(`${phases[pieces.phase[index]].label}, ${length(lasts)}`);
        if (found.length > 4) break;
      }
      if (found.length > 4) found.splice(0, found.length, ...sharesAt(lanes, time, pixel));
    } else found.push(...sharesAt(lanes, time, pixel));
    return `${nameOf(lanes)} at ${at}: ${found.join("; ") || "nothing measured"}.`;
  };
  const sharesAt = ([top, bottom], time, pixel) => {
    const shares = sharesOf(top, bottom, time - pixel / 2, time + pixel / 2, 1);
    return phases
      .map((phase, index) => [phase, shares[index]])
      .filter(([phase, share]) => share >= 0.005 && !phase.encloses)
      .sort((one, other) => other[1] - one[1])
      .map(([phase, share]) => `${phase.label} ${Math.round(100 * Math.min(1, share))}%`);
  };

  let began = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    began = placeOf(event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const here = placeOf(event);
    readout.textContent = describe(here);
    if (!began) return;
    const lanes = event.shiftKey;
    const { plot } = geometry();
    Object.assign(brush.style, {
      display: "block",
      left: `${Math.min(began.x, here.x)}px`,
      width: `${Math.abs(began.x - here.x)}px`,
      top: `${lanes ? Math.min(began.y, here.y) : AXIS}px`,
      height: `${lanes ? Math.abs(began.y - here.y) : plot}px`,
    });
  });
  const release = (event) => {
    brush.style.display = "none";
    if (!began) return;
    const from = began;
    const to = placeOf(event);
    began = null;
    if (event.type !== "pointerup" || Math.abs(from.x - to.x) < 4) return;
    const changes = { from: Math.min(from.time, to.time), to: Math.max(from.time, to.time) };
    if (event.shiftKey)
      Object.assign(changes, {
        top: Math.min(from.lanes[0], to.lanes[0]),
        bottom: Math.max(from.lanes[1], to.lanes[1]),
      });
    show(changes);
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("dblclick", whole);
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, placeOf(event).time);
    },
    { passive: false },
  );

  // --- legend

  phases.forEach((phase, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.title = phase.meaning;
    button.setAttribute("aria-pressed", "true");
    const swatch = document.createElement("span");
    swatch.className = phase.encloses ? "swatch encloses" : "swatch";
    swatch.style.setProperty("--light", phase.color);
    swatch.style.setProperty("--dark", phase.dark);
    button.append(swatch, phase.label);
    button.addEventListener("click", () => {
      hidden[index] = !hidden[index];
      button.setAttribute("aria-pressed", String(!hidden[index]));
      redraw();
    });
    legend.append(button);
  });

  document.getElementById("timeline-interactive").hidden = false;
  document.querySelectorAll('[data-action$="-lanes"]').forEach((button) => {
    button.hidden = rows < 3;
  });
  dark.addEventListener("change", redraw);
  new ResizeObserver(redraw).observe(canvas.parentElement);
  told();
  draw();
})();
