// Shows the Bokeh figure that the kernel built, and keeps it in step with the kernel's bars.
// BokehJS comes from the kernel, once a page and version, as a binary message: nothing is fetched
// from the network and nothing of it is saved in the notebook.

const PAGE = (window.__nbmem_bokeh ??= new Map());
const FEW_BARS = 300;
const TALL_FROM = 560;
const TALLER = 1.4;
// The pointer that scrolls a page by its wheel comes over the chart without wanting it.
const SCROLL_ENDS = 400;
const HANDS =
  "Drag over cells to zoom to them, Shift-drag to move, wheel to zoom, double-click for the newest";
const KEYS = "arrow keys choose a bar, plus and minus zoom, Escape shows the newest cells";

function loaded(version) {
  return window.Bokeh?.[version] ?? (window.Bokeh?.version === version ? window.Bokeh : undefined);
}

// The promise of this page's BokehJS; the first view that lacks it asks the kernel.
function bokehFor(model) {
  const version = model.get("version");
  if (loaded(version)) return Promise.resolve(loaded(version));
  let waiting = PAGE.get(version);
  if (!waiting) {
    waiting = {};
    waiting.promise = new Promise((resolve, reject) => Object.assign(waiting, { resolve, reject }));
    PAGE.set(version, waiting);
  }
  // Each view asks: the one that asked first may belong to a kernel that is gone.
  model.send({ type: "need-bokehjs" });
  return waiting.promise;
}

function runScript(buffer, version) {
  const waiting = PAGE.get(version);
  if (!waiting || waiting.started || loaded(version)) return;
  waiting.started = true;
  try {
    addScript(buffer, version, waiting);
  } catch (error) {
    PAGE.delete(version);
    waiting.reject(error);
  }
}

function addScript(buffer, version, waiting) {
  const address = URL.createObjectURL(new Blob([buffer], { type: "text/javascript" }));
  const script = document.createElement("script");
  const finish = (act) => {
    URL.revokeObjectURL(address);
    script.remove();
    act();
  };
  script.onload = () => finish(() => waiting.resolve(loaded(version)));
  script.onerror = () => {
    PAGE.delete(version);
    finish(() => waiting.reject(new Error("the page forbids scripts of its own kernel")));
  };
  script.src = address;
  document.head.append(script);
}

function make(tag, className, parent, attributes = {}) {
  const node = document.createElement(tag);
  node.className = className;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  parent.append(node);
  return node;
}

// Bokeh's own elements take the keyboard without a name; the plot around them has one, and the keys.
function takeOutOfTabOrder(node) {
  for (const each of node.querySelectorAll("*")) {
    if (each.tabIndex >= 0) each.tabIndex = -1;
    if (each.shadowRoot) takeOutOfTabOrder(each.shadowRoot);
  }
}

class ChartView {
  constructor(model, el) {
    this.model = model;
    this.stream = new RowStream();
    this.zoom = new Zoom();
    this.gone = false;
    this.build(el);
    this.listen();
    model.send({ type: "hello" });
    this.start();
  }

  build(el) {
    this.el = make("div", "nbmem-chart", el);
    const line = make("div", "nbmem-sight", this.el);
    this.sight = make("span", "nbmem-sight-words", line, { title: HANDS });
    this.buttons = ["all", "newest"].map((mode) => {
      const title = mode === "all" ? "Show all cells" : "Show the newest cells, and follow them";
      const button = make("button", "nbmem-sight-button", line, { type: "button", title });
      button.textContent = mode;
      button.addEventListener("click", () => this.show(mode));
      return button;
    });
    this.words = make("div", "nbmem-empty", this.el);
    // Letters typed here must not be notebook commands.
    this.place = make("div", "nbmem-plot", this.el, {
      role: "slider",
      tabindex: "0",
      "aria-label": `${this.model.get("label")}: ${KEYS}`,
      "data-lm-suppress-shortcuts": "true",
    });
    this.place.style.minHeight = `${this.model.get("height")}px`;
  }

  listen() {
    this.onMessage = (message, buffers) => this.receive(message, buffers);
    this.onSelected = () => this.reveal();
    this.model.on("msg:custom", this.onMessage);
    this.model.on("change:selected", this.onSelected);
    this.resizing = new ResizeObserver(() => this.fit());
    this.resizing.observe(this.el);
    this.theming = new MutationObserver(() => this.dress());
    this.theming.observe(document.body, { attributes: true });
    this.theming.observe(document.documentElement, { attributes: true });
    this.onScroll = (event) => {
      if (!this.place.contains(event.target)) this.scrolledAt = event.timeStamp;
    };
    document.addEventListener("wheel", this.onScroll, { capture: true, passive: true });
    this.place.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.place.addEventListener("pointerdown", (event) => this.takeTool(event), true);
    this.place.addEventListener("dblclick", () => this.show("newest"));
    this.place.addEventListener("keydown", (event) => this.key(event));
  }

  receive(message, buffers) {
    if (message.type === "bokehjs") return runScript(buffers[0], this.model.get("version"));
    if (message.type !== "rows") return;
    const before = this.stream.lists.keys;
    if (this.stream.take(buffers[0])) this.follow(before ?? []);
    else if (this.stream.lacking) this.model.send({ type: "hello" });
  }

  // What somebody looks at stays where it is, though older bars leave and newer ones come.
  follow(before) {
    const now = new Map(this.stream.lists.keys.map((key, at) => [key, at]));
    const [first, last] = this.zoom.bars;
    let kept = first;
    while (kept <= last && !now.has(before[kept])) kept += 1;
    const dropped = kept > last ? null : kept - now.get(before[kept]);
    this.zoom.follow(now.size, before.length ? dropped : 0);
    this.given = null;
    this.apply();
  }

  async start() {
    this.say();
    try {
      this.Bokeh = await bokehFor(this.model);
      if (this.gone) return;
      this.views = await this.Bokeh.embed.embed_item(JSON.parse(this.model.get("item")), this.place);
      this.find();
      if (this.gone) this.clear();
      else this.apply();
    } catch (error) {
      this.trouble = `The chart could not load (${error.message}); the table of cells says the same.`;
      this.say();
    }
  }

  find() {
    const views = this.views.roots ?? Object.values(this.views);
    this.doc = views[0].model.document;
    this.plotView = views[0];
    const named = (name) => this.doc.get_model_by_name(name);
    this.plot = named("nbmem-history");
    this.source = named("nbmem-cells");
    this.xRange = named("nbmem-x");
    this.yRange = named("nbmem-y");
    this.capacity = named("nbmem-capacity");
    this.capacityText = named("nbmem-capacity-text");
    this.xAxis = named("nbmem-cells-axis");
    this.yAxis = named("nbmem-bytes-axis");
    this.peaks = named("nbmem-peaks");
    this.brush = named("nbmem-brush");
    this.pan = named("nbmem-pan");
    this.source.selected.properties.indices.change.connect(() => this.tapped());
    for (const end of ["start", "end"]) {
      this.xRange.properties[end].change.connect(() => this.moved());
    }
    takeOutOfTabOrder(this.place);
    this.dress();
  }

  say() {
    const told = this.stream.number > 0;
    const waiting = this.doc && told ? "" : "The chart comes as soon as the kernel is free …";
    const words = told && this.count === 0 ? this.model.get("empty") : waiting;
    this.words.textContent = this.trouble ?? words;
    this.words.hidden = !this.words.textContent;
    this.place.style.visibility = this.words.hidden ? "visible" : "hidden";
    this.saySight();
  }

  saySight() {
    const seen = this.words.hidden && this.count > 0;
    const { cell } = this.stream.lists;
    const [first, last] = this.zoom.bars;
    const part = () => `${cell[first]} to ${cell[last]} of ${this.count.toLocaleString("en")} cells`;
    const words = this.zoom.showsAll ? "Drag to zoom in." : seen && part();
    this.sight.textContent = seen ? words : "";
    const [all, newest] = this.buttons;
    all.hidden = !seen || this.zoom.showsAll;
    newest.hidden = !seen || this.zoom.mode === "newest" || (this.zoom.showsAll && this.roomForAll());
  }

  roomForAll() {
    return this.zoom.newest.start <= this.zoom.whole.start;
  }

  get count() {
    return this.stream.lists.keys?.length ?? 0;
  }

  apply() {
    this.say();
    if (!this.doc || this.count === 0) return;
    const { head } = this.stream;
    this.yAxis.axis_label = head.unit;
    this.yRange.setv({ start: 0, end: head.top });
    const capacity = { visible: head.capacity !== null };
    this.capacity.setv({ ...capacity, location: head.capacity ?? 0 });
    this.capacityText.setv({ ...capacity, y: head.capacity ?? 0, text: head.capacity_text });
    this.fit();
  }

  fit() {
    const width = this.el.clientWidth - 50;
    if (!this.doc || !this.count || width <= 0) return;
    const height = this.model.get("height");
    this.plot.height = width < TALL_FROM ? height : Math.round(height * TALLER);
    this.zoom.resize(width);
    this.draw();
  }

  draw() {
    const { start, end, ticks } = this.zoom;
    this.xAxis.major_label_overrides = new Map(ticks.map((x) => [x, this.stream.lists.cell[x]]));
    this.xAxis.ticker.ticks = ticks;
    this.giveBars();
    this.placing = true;
    this.xRange.setv({ start, end });
    this.placing = false;
    this.saySight();
  }

  // Bokeh is as busy with bars out of sight as with others: of a long history it has few of those.
  giveBars() {
    const [first, last] = this.count <= FEW_BARS ? [0, this.count - 1] : this.zoom.bars;
    const seen = last - first + 1;
    const { from = 0, to = -1 } = this.given ?? {};
    if (from <= first && last < to && to - from <= 4 * seen + FEW_BARS) return;
    const spare = Math.ceil(seen / 2);
    this.given = { from: Math.max(0, first - spare), to: Math.min(this.count, last + 1 + spare) };
    const { head, lists } = this.stream;
    const part = Object.entries(lists).map(([name, values]) =>
      [name, values.slice(this.given.from, this.given.to)]
    );
    const { keys, places, ...columns } = Object.fromEntries(part);
    const x = keys.map((_, at) => this.given.from + at);
    const words = (digits) => [...digits].map((digit) => head.part_words[digit]).join("\n");
    this.source.data = { ...columns, x, serial: keys, part_words: columns.parts.map(words) };
    this.showSelected();
  }

  show(mode) {
    this.zoom.reset(mode);
    if (this.doc && this.count) this.draw();
  }

  // Bokeh's own tools moved the range: the brush, or dragging with Shift.
  moved() {
    if (this.placing || this.moving) return;
    this.moving = true;
    // Both ends are set one after the other.
    queueMicrotask(() => {
      this.moving = false;
      if (this.gone) return;
      this.zoom.choose(this.xRange.start, this.xRange.end);
      this.draw();
    });
  }

  takeTool(event) {
    if (!this.doc) return;
    this.pan.active = event.shiftKey;
    this.brush.active = !event.shiftKey;
  }

  wheel(event) {
    if (!this.doc || !this.count || event.deltaY === 0) return;
    const scrolling = event.timeStamp - (this.scrolledAt ?? -Infinity) < SCROLL_ENDS;
    if (scrolling) this.scrolledAt = event.timeStamp;
    const whole = this.zoom.whole;
    const nothingLeft = event.deltaY > 0 && this.zoom.end - this.zoom.start >= whole.end - whole.start;
    if (scrolling || nothingLeft) return;
    event.preventDefault();
    const frame = this.plotView.frame.bbox;
    const share = (event.clientX - this.place.getBoundingClientRect().left - frame.left) / frame.width;
    const at = this.zoom.start + Math.min(Math.max(share, 0), 1) * (this.zoom.end - this.zoom.start);
    this.zoom.scale(event.deltaY > 0 ? 1.25 : 0.8, at);
    this.draw();
  }

  key(event) {
    if (!this.doc || !this.count || event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    const scales = { "+": 0.8, "=": 0.8, "-": 1.25 };
    if (event.key in steps) this.step(steps[event.key]);
    else if (event.key in scales) this.scale(scales[event.key]);
    else if (event.key === "Escape") this.show("newest");
    else if (event.key === "Enter") this.jumpTo(this.at);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Position of the chosen bar, or -1.
  get at() {
    return (this.stream.lists.keys ?? []).indexOf(this.model.get("selected"));
  }

  step(by) {
    const unchosen = this.at < 0 && Math.abs(by) === 1;
    const next = unchosen ? this.zoom.bars[1] : this.at + by;
    this.choose(Math.max(0, Math.min(this.count - 1, next)));
  }

  // A bar that is chosen, here or by its row, comes into sight.
  reveal() {
    const at = this.at;
    if (this.doc && at >= 0) {
      this.zoom.reveal(at);
      this.draw();
    }
    this.showSelected();
  }

  scale(factor) {
    const { start, end } = this.zoom;
    this.zoom.scale(factor, this.at < 0 ? (start + end) / 2 : this.at);
    this.draw();
  }

  choose(at) {
    this.model.set("selected", at === undefined ? null : this.stream.lists.keys[at]);
    this.model.save_changes();
  }

  jumpTo(at) {
    const place = this.stream.lists.places[at];
    if (place && JUMPS()) jump(this.place, place);
  }

  dress() {
    if (!this.doc) return;
    const ink = getComputedStyle(this.el).color;
    const font = getComputedStyle(this.el).fontFamily;
    for (const axis of [this.xAxis, this.yAxis]) {
      axis.setv({
        major_label_text_color: ink,
        axis_label_text_color: ink,
        major_label_text_font: font,
        axis_label_text_font: font,
      });
    }
    this.capacityText.setv({ text_color: ink, text_font: font });
    const { glyph, selection_glyph, nonselection_glyph } = this.peaks;
    for (const mark of [glyph, selection_glyph, nonselection_glyph]) {
      mark.fill_color = { value: ink };
    }
  }

  showSelected() {
    if (!this.doc) return;
    const at = this.at;
    const { from, to } = this.given ?? { from: 0, to: 0 };
    this.telling = true;
    this.source.selected.indices = from <= at && at < to ? [at - from] : [];
    this.telling = false;
    this.tellValue(at);
  }

  // What a screen reader says of the chosen bar.
  tellValue(at) {
    const { cell, title, peak_text, after_text } = this.stream.lists;
    const told = { "aria-valuemin": 1, "aria-valuemax": this.count };
    if (at >= 0) {
      told["aria-valuenow"] = at + 1;
      told["aria-valuetext"] = `${cell[at]} ${title[at]}, peak ${peak_text[at]}, end ${after_text[at]}`;
    }
    for (const [name, value] of Object.entries(told)) this.place.setAttribute(name, value);
    if (at >= 0) return;
    this.place.removeAttribute("aria-valuenow");
    this.place.setAttribute("aria-valuetext", "no bar is chosen");
  }

  tapped() {
    if (this.telling) return;
    const [index] = this.source.selected.indices;
    const at = index === undefined ? undefined : this.given.from + index;
    this.choose(at);
    if (at !== undefined) this.jumpTo(at);
  }

  clear() {
    for (const view of this.views?.roots ?? Object.values(this.views ?? {})) view.remove();
    this.doc?.clear();
    const all = this.Bokeh?.documents ?? [];
    if (all.includes(this.doc)) all.splice(all.indexOf(this.doc), 1);
  }

  remove() {
    this.gone = true;
    this.resizing.disconnect();
    this.theming.disconnect();
    document.removeEventListener("wheel", this.onScroll, { capture: true });
    this.model.off("msg:custom", this.onMessage);
    this.model.off("change:selected", this.onSelected);
    this.clear();
  }
}

export default {
  render({ model, el }) {
    const view = new ChartView(model, el);
    return () => view.remove();
  },
};
