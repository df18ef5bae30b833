/**
 * Counts and rates at a threshold. No DOM; tested with Node. `_threshold_explorer.py` computes the
 * same values in Python.
 */

/** Parsed message of `ThresholdPoints.to_bytes`: three rows of little-endian float64. */
export class ThresholdPoints {
  /**
   * @param {DataView|ArrayBuffer} bytes thresholds, true positives and false positives
   * @param {number} positives rows of the class
   * @param {number} negatives rows of other classes
   */
  constructor(bytes, positives, negatives) {
    const view = bytes instanceof ArrayBuffer ? new DataView(bytes) : bytes;
    const count = Math.floor((view?.byteLength ?? 0) / 24);
    const row = (k) => Float64Array.from({ length: count },
      (_, i) => view.getFloat64(8 * (k * count + i), true));
    [this.thresholds, this.truePositives, this.falsePositives] = [row(0), row(1), row(2)];
    Object.assign(this, { positives, negatives, length: count });
  }

  /** Counts and rates at an index. */
  at(place) {
    const tp = this.truePositives[place];
    const fp = this.falsePositives[place];
    const [tn, fn] = [this.negatives - fp, this.positives - tp];
    return {
      threshold: this.thresholds[place], tp, fp, tn, fn,
      precision: tp + fp ? tp / (tp + fp) : 1,
      recall: tp / Math.max(this.positives, 1),
      falsePositiveRate: fp / Math.max(this.negatives, 1),
      f1: 2 * tp + fp + fn ? (2 * tp) / (2 * tp + fp + fn) : 0,
      accuracy: (tp + tn) / Math.max(this.positives + this.negatives, 1),
    };
  }

  /** Index of the lowest threshold >= `threshold`; thresholds are in descending order. */
  placeOf(threshold) {
    let [low, high] = [0, this.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.thresholds[middle] >= threshold) low = middle + 1;
      else high = middle;
    }
    return Math.max(low - 1, 0);
  }

  /** Index with the lowest cost of errors; ties: the highest threshold. */
  placeOfLeastCost(falsePositive, falseNegative) {
    let [best, least] = [0, Infinity];
    for (let i = 0; i < this.length; i += 1) {
      const cost = this.cost(i, falsePositive, falseNegative);
      if (cost < least) [best, least] = [i, cost];
    }
    return best;
  }

  cost(place, falsePositive, falseNegative) {
    return falsePositive * this.falsePositives[place]
      + falseNegative * (this.positives - this.truePositives[place]);
  }

  /** Coordinates of a curve from left to right, 0 to 1. */
  curve(which) {
    return Array.from({ length: this.length }, (_, place) => this.point(which, place));
  }

  /** [x, y] of an index on a curve. */
  point(which, place) {
    const found = this.at(place);
    return which === "roc"
      ? [found.falsePositiveRate, found.recall] : [found.recall, found.precision];
  }
}

/** Format a threshold. */
export const thresholdText = (value) =>
  (Number.isFinite(value) ? String(Number(value.toPrecision(4))) : "above all scores");

export const countText = (value) => Math.round(value).toLocaleString("en-US");

export const shareText = (value) => value.toFixed(4);

/** Format a sum of costs: as an integer if it is one, else with a few digits. */
export const costText = (value) =>
  (Number.isInteger(value) ? countText(value) : Number(value.toPrecision(6)).toLocaleString("en-US"));

/** Describe counts and rates in one sentence. */
export const readingText = (found) =>
  `threshold ${thresholdText(found.threshold)}: precision ${shareText(found.precision)}, `
  + `recall ${shareText(found.recall)}`;
