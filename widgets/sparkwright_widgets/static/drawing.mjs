/**
 * Draws the chart on its canvas: axes, marks, bands, lines. chart.mjs decides what is drawn.
 */

import { MEAN, VALIDATION, BAND, decimate, lookOfPlace } from "./curve.mjs";
import { axisName, epochMarks, linearTicks, logTicks, tickText, timeText, timeTicks } from "./axes.mjs";

// Okabe and Ito's color-blind safe palette; each color also has a marker.
const COLORS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7"];
const DARK_PAGE_BLUE = "#4FA8E0"; // replaces the first color on dark pages, for contrast
const MARKERS = ["circle", "square", "triangle", "diamond", "cross", "plus"];
// Corners relative to the center; true starts a new path.
const SHAPES = {
  square: [[-3, -3], [3, -3], [3, 3], [-3, 3]],
  triangle: [[0, -4], [3.5, 3], [-3.5, 3]],
  diamond: [[0, -4], [3.5, 0], [0, 4], [-3.5, 0]],
  cross: [[-2.8, -2.8], [2.8, 2.8], [2.8, -2.8, true], [-2.8, 2.8]],
  plus: [[-4, 0], [4, 0], [0, -4, true], [0, 4]],
};
const VALIDATION_COLOR = "#D55E00";
const GOOD = "#009E73";
const RINGS_APART = 16; // pixels between validation markers
export const MARGIN = { top: 26, right: 14, bottom: 36, left: 56 };

const lightness = new Map();
/** Whether a text color, in any notation, is light, so that the page is dark. */
export function isLight(ink) {
  if (!lightness.has(ink)) {
    const context = document.createElement("canvas").getContext("2d");
    context.fillStyle = ink;
    context.fillRect(0, 0, 1, 1);
    lightness.set(ink, Math.min(...context.getImageData(0, 0, 1, 1).data) > 128);
  }
  return lightness.get(ink);
}

/** Style of a line. Color is not the only cue: the mean is bold, validation dashed, workers have markers. */
export function lookOf(line, ink, { isOfRuns = false, hasBand = false } = {}) {
  const { place: id, isValidation } = lookOfPlace(line);
  const blue = isLight(ink) ? DARK_PAGE_BLUE : COLORS[0];
  if (id === MEAN) return { color: hasBand ? blue : ink, width: 2.5, alpha: 1, dash: [], marker: "none" };
  if (id === BAND) return { color: blue, width: 0, alpha: isLight(ink) ? 0.35 : 0.25, dash: [], marker: "band" };
  if (id === VALIDATION) {
    const color = isLight(ink) ? "#FF8A3D" : VALIDATION_COLOR;
    return { color, width: 2, alpha: 1, dash: [6, 4], marker: "ring" };
  }
  const marker = MARKERS[(id + Math.floor(id / COLORS.length)) % MARKERS.length];
  const color = id % COLORS.length ? COLORS[id % COLORS.length] : blue;
  if (isOfRuns) {
    return { color, width: isValidation ? 1.5 : 2, alpha: 1, dash: isValidation ? [6, 4] : [], marker };
  }
  const alpha = isLight(ink) ? 0.9 : 0.7; // thin dark colors vanish on a dark page
  return { color, width: 1.25, alpha, dash: [], marker };
}

/**
 * One drawing: the context of a canvas, and the mapping of values to pixels.
 * `x`, `y`: visible [low, high]; `isLog`: whether y is logarithmic; `kind`: the unit of x.
 */
export class Plot {
  constructor(context, { width, height, ink, font, x, y, isLog, kind }) {
    Object.assign(this, { context, ink, font, kind, isLog, x, y });
    this.left = MARGIN.left;
    this.top = MARGIN.top;
    this.right = width - MARGIN.right;
    this.bottom = height - MARGIN.bottom;
    if (!x) return;
    const scale = isLog ? Math.log10 : (value) => value;
    const [low, high] = [scale(y[0]), scale(y[1])];
    this.toX = (value) => this.left + ((value - x[0]) / (x[1] - x[0])) * (this.right - this.left);
    this.toY = (value) => this.top + (1 - (scale(value) - low) / (high - low)) * (this.bottom - this.top);
  }

  /** The value of x at a pixel. */
  at(pixel) {
    const part = (pixel - this.left) / (this.right - this.left);
    return this.x[0] + Math.max(0, Math.min(1, part)) * (this.x[1] - this.x[0]);
  }

  begin(alpha = 1) {
    const { context } = this;
    context.fillStyle = context.strokeStyle = this.ink;
    context.lineWidth = 1;
    context.font = `12px ${this.font}`;
    context.globalAlpha = alpha;
  }

  /** Draw text in the center of an empty plot. */
  words(words) {
    this.begin();
    this.context.textAlign = "center";
    text(this.context, 0.75, words, (this.left + this.right) / 2, (this.top + this.bottom) / 2);
  }

  axes(label) {
    const { context, left, right, bottom } = this;
    this.begin();
    context.textAlign = "right";
    context.textBaseline = "middle";
    const wanted = (bottom - this.top) / 45;
    for (const tick of (this.isLog ? logTicks : linearTicks)(...this.y, wanted)) {
      const y = Math.round(this.toY(tick)) + 0.5;
      stroke(context, 0.13, [[left, y], [right, y]]);
      text(context, 0.8, tickText(tick), left - 8, y);
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    const span = this.x[1] - this.x[0];
    const many = Math.max(2, (right - left) / 90);
    const ticks = this.kind === "time" ? timeTicks(...this.x, many) : linearTicks(...this.x, many);
    for (const tick of ticks) {
      if (this.kind === "step" && !Number.isInteger(tick)) continue;
      const words = this.kind === "time" ? timeText(tick, span) : tickText(tick);
      stroke(context, 0.4, [[this.toX(tick), bottom], [this.toX(tick), bottom + 4]]);
      const half = context.measureText(words).width / 2; // keep the last label inside
      text(context, 0.8, words, Math.min(this.toX(tick), right + MARGIN.right - half), bottom + 6);
    }
    stroke(context, 0.4, [[left, bottom + 0.5], [right, bottom + 0.5]]);
    context.textAlign = "right";
    text(context, 0.8, axisName(this.kind, span), right, bottom + 21);
    context.textAlign = "left";
    text(context, 0.8, label + (this.isLog ? " (log scale)" : ""), 2, 0);
  }

  /** Draw the range of usual values: a shade, two edges and a label. */
  healthy(band) {
    const { context, left, right } = this;
    this.begin(0.14);
    const [high, low, target] = [band.high, band.low, band.target].map((value) => this.toY(value));
    context.fillStyle = GOOD;
    context.fillRect(left, high, right - left, low - high);
    this.begin();
    stroke(context, 0.35, [[left, high], [right, high]]);
    stroke(context, 0.35, [[left, low], [right, low]]);
    context.setLineDash([6, 4]);
    stroke(context, 0.6, [[left, target], [right, target]]);
    context.setLineDash([]);
    context.textAlign = "right";
    context.textBaseline = "bottom";
    text(context, 0.8, `${band.label}: ${tickText(band.low)} to ${tickText(band.high)}`, right - 4, low - 4);
  }

  /** Mark the beginnings of some epochs. */
  epochs(line) {
    const { context, left, right, bottom } = this;
    this.begin();
    context.textAlign = "left";
    context.textBaseline = "top";
    for (const { x, epoch } of epochMarks(line, this.toX, [left, right - 58])) {
      const at = Math.round(x) + 0.5;
      context.setLineDash([2, 3]);
      stroke(context, 0.3, [[at, this.top - 8], [at, bottom]]);
      context.setLineDash([]);
      text(context, 0.65, `epoch ${epoch}`, at + 4, this.top - 11);
    }
  }

  /** Clip what `draw` draws to the plot. */
  inside(draw) {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(this.left - 5, this.top - 5, this.right - this.left + 10, this.bottom - this.top + 10);
    context.clip();
    draw();
    context.restore();
  }

  /** Fill the range of several lines; `columns` are those of `bandOf`. */
  band(columns, look) {
    const { context } = this;
    this.begin(look.alpha);
    context.fillStyle = look.color;
    context.beginPath();
    const edge = (value) => (Number.isFinite(this.toY(value)) ? this.toY(value) : this.bottom);
    for (const { x, high } of columns) context.lineTo(x, edge(high) - 0.5);
    for (const { x, low } of columns.toReversed()) context.lineTo(x, edge(low) + 0.5);
    context.fill();
    context.globalAlpha = 1;
  }

  line(line, look) {
    const { context } = this;
    const points = decimate(line, this.toX, this.toY);
    context.strokeStyle = context.fillStyle = look.color;
    context.lineWidth = look.width;
    context.globalAlpha = look.alpha;
    context.lineJoin = "round";
    context.setLineDash(look.dash);
    context.beginPath();
    let isDown = false;
    for (let i = 0; i < points.length; i += 2) {
      if (Number.isNaN(points[i])) isDown = false;
      else if (isDown) context.lineTo(points[i], points[i + 1]);
      else {
        context.moveTo(points[i], points[i + 1]);
        isDown = true;
      }
    }
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
    if (look.isBare) return;
    // Mark the last point, and earlier points whose rings do not touch.
    let last = Infinity;
    const earliest = look.marker === "ring" ? 0 : points.length - 2;
    for (let i = points.length - 2; i >= Math.max(0, earliest); i -= 2) {
      if (!(last - points[i] >= RINGS_APART)) continue;
      mark(context, look.marker, points[i], points[i + 1]);
      last = points[i];
    }
  }

  /** Draw the vertical cursor line at a value of x. */
  cursor(value) {
    this.begin();
    const x = Math.round(this.toX(value)) + 0.5;
    stroke(this.context, 0.6, [[x, this.top], [x, this.bottom]]);
  }

  point(x, y, look) {
    this.context.fillStyle = this.context.strokeStyle = look.color;
    if (Number.isFinite(this.toY(y))) mark(this.context, look.marker, this.toX(x), this.toY(y));
  }

  /** Draw the range that is selected by dragging, in pixels. */
  selection(from, to) {
    this.begin(0.12);
    this.context.fillRect(Math.min(from, to), this.top, Math.abs(to - from), this.bottom - this.top);
    for (const x of [from, to]) stroke(this.context, 0.6, [[x, this.top], [x, this.bottom]]);
  }
}

/** Draw the legend key of a line. */
export function drawSwatch(canvas, look) {
  const ratio = window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [26 * ratio, 14 * ratio];
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.strokeStyle = context.fillStyle = look.color;
  if (look.marker === "band") {
    context.globalAlpha = look.alpha + 0.1;
    context.fillRect(0, 2, 26, 10);
    return;
  }
  context.lineWidth = look.width;
  context.setLineDash(look.dash);
  stroke(context, 1, [[0, 7], [26, 7]]);
  context.setLineDash([]);
  mark(context, look.marker, 13, 7);
}

function stroke(context, alpha, points) {
  context.globalAlpha = alpha;
  context.beginPath();
  points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.stroke();
  context.globalAlpha = 1;
}

function text(context, alpha, words, x, y) {
  context.globalAlpha = alpha;
  context.fillText(words, x, y);
  context.globalAlpha = 1;
}

function mark(context, marker, x, y) {
  if (!Number.isFinite(x) || !Number.isFinite(y)) return;
  const corners = SHAPES[marker];
  context.beginPath();
  if (!corners) context.arc(x, y, marker === "none" ? 2.5 : 3.5, 0, 2 * Math.PI);
  else corners.forEach(([dx, dy, moves]) => context[moves ? "moveTo" : "lineTo"](x + dx, y + dy));
  context.lineWidth = marker === "ring" ? 2 : 1.5;
  context.setLineDash([]);
  if (["cross", "plus", "ring"].includes(marker)) context.stroke();
  else context.fill();
}
