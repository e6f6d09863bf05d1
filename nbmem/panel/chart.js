// Shows the Bokeh figure that the kernel built, and keeps it in step with the trait `data`.
// BokehJS comes from the kernel, once a page and version, as a binary message: nothing is fetched
// from the network and nothing of it is saved in the notebook.

const PAGE = (window.__nbmem_bokeh ??= new Map());
const BAR_LEAST_WIDTH = 6;
const LABEL_WIDTH = 56;

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

// What the pointer reads of a bar: a line a part, sent as a digit a part.
function partWords(data) {
  const lines = (digits) => [...digits].map((digit) => data.part_words[digit]).join("\n");
  return data.columns.parts.map(lines);
}

class ChartView {
  constructor(model, el) {
    this.model = model;
    this.el = document.createElement("div");
    this.el.className = "nbmem-chart";
    this.el.style.minHeight = `${model.get("height")}px`;
    this.el.setAttribute("role", "img");
    this.el.setAttribute("aria-label", model.get("label"));
    this.words = document.createElement("div");
    this.words.className = "nbmem-empty";
    this.place = document.createElement("div");
    this.el.append(this.words, this.place);
    el.append(this.el);
    this.gone = false;
    this.listen();
    model.send({ type: "hello" });
    this.start();
  }

  listen() {
    this.onMessage = (message, buffers) => {
      if (message.type === "bokehjs") runScript(buffers[0], this.model.get("version"));
    };
    this.onData = () => this.apply();
    this.onSelected = () => this.showSelected();
    this.model.on("msg:custom", this.onMessage);
    this.model.on("change:data", this.onData);
    this.model.on("change:selected", this.onSelected);
    this.resizing = new ResizeObserver(() => this.fit());
    this.resizing.observe(this.el);
    this.theming = new MutationObserver(() => this.dress());
    this.theming.observe(document.body, { attributes: true });
    this.theming.observe(document.documentElement, { attributes: true });
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
    this.source.selected.properties.indices.change.connect(() => this.tapped());
    this.dress();
  }

  say() {
    const waiting = this.doc ? "" : "The chart comes as soon as the kernel is free …";
    const words = this.count() === 0 ? this.model.get("empty") : waiting;
    this.words.textContent = this.trouble ?? words;
    this.words.hidden = !this.words.textContent;
    this.place.style.visibility = this.words.hidden ? "visible" : "hidden";
  }

  count() {
    return (this.model.get("data").labels ?? []).length;
  }

  apply() {
    this.say();
    if (!this.doc || this.count() === 0) return;
    const data = this.model.get("data");
    const following = this.shown === undefined || this.xRange.end >= this.shown - 0.5;
    this.source.data = { ...data.columns, part_words: partWords(data) };
    this.xAxis.major_label_overrides = new Map(data.labels.map((label, x) => [x, label]));
    this.yAxis.axis_label = data.unit;
    this.yRange.setv({ start: 0, end: data.top });
    const capacity = { visible: data.capacity !== null };
    this.capacity.setv({ ...capacity, location: data.capacity ?? 0 });
    this.capacityText.setv({ ...capacity, y: data.capacity ?? 0, text: data.capacity_text });
    this.shown = data.labels.length;
    if (following) this.fit();
    this.showSelected();
  }

  // As many of the newest cells as have room; earlier ones come by dragging.
  fit() {
    const width = this.el.clientWidth - 50;
    if (!this.doc || !this.shown || width <= 0) return;
    const room = Math.max(8, Math.floor(width / BAR_LEAST_WIDTH));
    const bars = Math.min(this.shown, room);
    const labels = Math.max(2, Math.floor(width / LABEL_WIDTH));
    const step = Math.ceil(bars / labels);
    const ticks = [];
    for (let x = this.shown - 1; x >= 0; x -= step) ticks.unshift(x);
    this.xAxis.ticker.ticks = ticks;
    // A few cells keep the bars of many: one bar as wide as the chart reads as a background.
    const span = Math.max(bars, 8);
    const end = this.shown - 0.4 + (span - bars);
    // One after the other: a range keeps itself within the bounds it has at that moment.
    this.xRange.bounds = null;
    this.xRange.setv({ start: end - span - 0.2, end });
    this.xRange.bounds = [-0.6, Math.max(end, span - 0.4)];
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
    const at = (this.source.data.serial ?? []).indexOf(this.model.get("selected"));
    this.telling = true;
    this.source.selected.indices = at < 0 ? [] : [at];
    this.telling = false;
  }

  tapped() {
    if (this.telling) return;
    const [at] = this.source.selected.indices;
    this.model.set("selected", at === undefined ? null : this.source.data.serial[at]);
    this.model.save_changes();
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
    this.model.off("msg:custom", this.onMessage);
    this.model.off("change:data", this.onData);
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
