// Which bars of the chart are in sight: the newest that have room, all, or what somebody chose.
// Bars stand at 0, 1, 2 … from the oldest; the newest is at `count - 1`.

const BAR_LEAST_WIDTH = 6;
const LABEL_WIDTH = 56;
// A few cells keep the bars of many: one bar as wide as the chart reads as a background.
const FEWEST_BARS = 8;
const NEAREST = 3;
const MARGIN = 0.6;

class Zoom {
  constructor() {
    Object.assign(this, { mode: "newest", count: 0, width: 0, start: -MARGIN, end: 1 });
  }

  get whole() {
    return { start: -MARGIN, end: Math.max(this.count, FEWEST_BARS) - 1 + MARGIN };
  }

  get newest() {
    const { start, end } = this.whole;
    const room = Math.max(FEWEST_BARS, Math.floor(this.width / BAR_LEAST_WIDTH));
    return { start: Math.max(start, end - room - 2 * MARGIN + 1), end };
  }

  // Positions of the first and the last bar in sight.
  get bars() {
    return [Math.max(0, Math.ceil(this.start)), Math.min(this.count - 1, Math.floor(this.end))];
  }

  get showsAll() {
    const [first, last] = this.bars;
    return first === 0 && last === this.count - 1;
  }

  get showsNewest() {
    return this.mode !== "chosen" || this.end >= this.count - 0.5;
  }

  // The history went on: `dropped` bars left at the old end; null: these are other bars.
  follow(count, dropped) {
    const following = this.showsNewest;
    this.count = count;
    if (dropped === null) this.mode = "newest";
    if (this.mode !== "chosen") return this.reset(this.mode);
    const late = following ? Math.max(0, count - 1 + MARGIN - (this.end - dropped)) : 0;
    this.place(this.start - dropped + late, this.end - dropped + late);
  }

  resize(width) {
    this.width = width;
    if (this.mode !== "chosen") this.reset(this.mode);
  }

  reset(mode = "newest") {
    Object.assign(this, this[mode === "all" ? "whole" : "newest"], { mode });
  }

  choose(start, end) {
    this.mode = "chosen";
    this.place(start, end);
  }

  // Within the history; as wide as asked for, but no nearer than a few bars.
  place(start, end) {
    const whole = this.whole;
    const span = Math.min(Math.max(end - start, NEAREST), whole.end - whole.start);
    const middle = (start + end) / 2;
    this.start = Math.min(Math.max(middle - span / 2, whole.start), whole.end - span);
    this.end = this.start + span;
  }

  scale(factor, at) {
    this.choose(at - (at - this.start) * factor, at + (this.end - at) * factor);
  }

  reveal(at) {
    const late = Math.max(0, at + MARGIN - this.end) + Math.min(0, at - MARGIN - this.start);
    if (Math.abs(late) > 0.1) this.choose(this.start + late, this.end + late);
  }

  // Counted from the newest, so that labels stay with their bars while the chart moves.
  get ticks() {
    const labels = Math.max(2, Math.floor(this.width / LABEL_WIDTH));
    const [first, last] = this.bars;
    const step = Math.max(1, Math.ceil((last - first + 1) / labels));
    const ticks = [];
    for (let x = this.count - 1; x >= first; x -= step) if (x <= last) ticks.unshift(x);
    return ticks;
  }
}
