// A virtualised table: sort by a header, filter, choose rows by mouse or keyboard.
// Rows come as one binary message from the kernel, so they are never saved in the notebook.
// Every text that comes from data enters the page through textContent or an attribute's value.

const ROW_HEIGHT = 24;
const SPARE_ROWS = 4;
// Letters typed here must not be notebook commands ("d d" deletes a cell). The page looks for this
// mark from the focused element upwards and takes the first match: each such element bears it.
const OWN_KEYS = { "data-lm-suppress-shortcuts": "true" };
const WAITING = "The rows come as soon as the kernel is free …";
const HINT = "Choose rows to free what they hold: click, Shift-click for several in a row, Space.";
let tablesMade = 0;

function make(tag, className, parent, attributes = {}) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (parent) parent.append(node);
  return node;
}

// A long name loses its middle, never its end: the head may shrink, the tail may not.
function fillName(cell, text) {
  const cut = text.length > 16 ? text.length - 12 : text.length;
  make("span", "nbmem-head", cell).textContent = text.slice(0, cut);
  if (cut < text.length) make("span", "nbmem-tail", cell).textContent = text.slice(cut);
}

class TableView {
  constructor(model, el) {
    this.model = model;
    this.uid = `nbmem-table-${++tablesMade}`;
    this.data = { columns: [], keys: [], tips: [], total: 0, unlisted: "", empty: WAITING };
    this.order = [];
    this.sort = null;
    this.active = -1;
    this.build(el);
    this.onMessage = (message, buffers) => this.receive(message, buffers);
    this.onSelected = () => this.drawRows();
    model.on("msg:custom", this.onMessage);
    model.on("change:selected", this.onSelected);
    this.drawRows();
    model.send({ type: "hello" });
  }

  build(el) {
    const rows = this.model.get("visible_rows");
    this.root = make("div", "nbmem-table", el);
    if (this.model.get("filterable")) this.buildFilter();
    this.grid = make("div", "nbmem-grid", this.root, {
      ...OWN_KEYS,
      role: "grid",
      tabindex: "0",
      "aria-label": this.model.get("label"),
      "aria-multiselectable": String(this.model.get("multiple")),
    });
    // Half a row more: one that is cut says that there are others below.
    this.grid.style.height = `${(rows + 1.5) * ROW_HEIGHT}px`;
    this.header = make("div", "nbmem-header nbmem-row", this.grid, { role: "row" });
    this.spacer = make("div", "nbmem-spacer", this.grid, { role: "rowgroup" });
    this.note = make("div", "nbmem-empty", this.grid);
    this.footer = make("div", "nbmem-footer", this.root, { role: "status", "aria-live": "polite" });
    this.footer.hidden = !this.model.get("multiple");
    this.grid.addEventListener("scroll", () => this.drawRows());
    this.spacer.addEventListener("click", (event) => this.click(event));
    this.grid.addEventListener("keydown", (event) => this.key(event));
  }

  buildFilter() {
    this.filter = make("input", "nbmem-filter", this.root, {
      ...OWN_KEYS,
      type: "search",
      placeholder: "filter: name, shape, dtype, [cell] …",
      "aria-label": `Filter ${this.model.get("label")}`,
      spellcheck: "false",
    });
    this.filter.addEventListener("input", () => {
      this.arrange();
      this.grid.scrollTop = 0;
      clearTimeout(this.asking);
      if (!this.data.complete) this.asking = setTimeout(() => this.askKernel(), 300);
    });
  }

  askKernel() {
    this.model.send({ type: "filter", text: this.filter.value });
  }

  receive(message, buffers) {
    if (message.type !== "rows") return;
    this.data = JSON.parse(new TextDecoder().decode(buffers[0]));
    this.root.style.setProperty("--nbmem-wide", this.tracks((column) => column.width));
    const narrow = (column) => (column.wide ? null : (column.narrow ?? column.width));
    this.root.style.setProperty("--nbmem-narrow", this.tracks(narrow));
    this.grid.setAttribute("aria-colcount", this.data.columns.length);
    this.drawHeader();
    this.arrange();
  }

  tracks(width) {
    const box = this.model.get("multiple") ? ["20px"] : [];
    return [...box, ...this.data.columns.map(width).filter(Boolean)].join(" ");
  }

  drawHeader() {
    const focused = [...this.header.querySelectorAll("button")].indexOf(document.activeElement);
    this.header.replaceChildren();
    if (this.model.get("multiple")) make("div", "", this.header, { role: "presentation" });
    this.data.columns.forEach((column, index) => {
      const cell = make("div", this.cellClass(column), this.header, { role: "columnheader" });
      const turn = this.sort && this.sort.index === index ? this.sort.turn : 0;
      cell.setAttribute("aria-sort", ["descending", "none", "ascending"][turn + 1]);
      const button = make("button", "", cell, {
        ...OWN_KEYS,
        type: "button",
        title: column.tip,
      });
      make("span", column.short ? "nbmem-long" : "", button).textContent = column.label;
      if (column.short) make("span", "nbmem-short", button).textContent = column.short;
      button.append(["\u00a0↓", "", "\u00a0↑"][turn + 1]);
      button.addEventListener("click", () => this.sortBy(index));
    });
    if (focused >= 0) this.header.querySelectorAll("button")[focused]?.focus();
  }

  cellClass(column) {
    return `nbmem-cell nbmem-${column.kind}${column.wide ? " nbmem-wide" : ""}`;
  }

  sortBy(index) {
    const first = this.data.columns[index].sort ? -1 : 1;
    const again = this.sort && this.sort.index === index;
    const turn = again ? -this.sort.turn : first;
    this.sort = again && turn === first ? null : { index, turn };
    this.drawHeader();
    this.arrange();
  }

  arrange() {
    const { columns, keys, tips } = this.data;
    const words = (this.filter?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const textOf = (row) => [tips[row], ...columns.map((c) => c.text[row])].join(" ").toLowerCase();
    this.order = keys.map((_, row) => row);
    if (words.length) {
      this.order = this.order.filter((row) => words.every((word) => textOf(row).includes(word)));
    }
    if (this.sort && columns[this.sort.index]) this.order.sort(this.comparison());
    this.active = this.order.findIndex((row) => keys[row] === this.activeKey);
    this.drawRows();
  }

  comparison() {
    const { sort, text } = this.data.columns[this.sort.index];
    const compare = sort
      ? (a, b) => (sort[a] ?? -Infinity) - (sort[b] ?? -Infinity)
      : (a, b) => text[a].localeCompare(text[b], undefined, { numeric: true });
    return (a, b) => this.sort.turn * (compare(a, b) || 0) || a - b;
  }

  drawRows() {
    const first = Math.max(0, Math.floor(this.grid.scrollTop / ROW_HEIGHT) - SPARE_ROWS);
    const shown = this.model.get("visible_rows") + 2 * SPARE_ROWS;
    const selected = new Set(this.model.get("selected"));
    const rows = this.order.slice(first, first + shown);
    this.spacer.style.height = `${this.order.length * ROW_HEIGHT}px`;
    this.spacer.replaceChildren(...rows.map((row, i) => this.rowNode(row, first + i, selected)));
    this.grid.setAttribute("aria-rowcount", this.order.length + 1);
    if (this.active < 0) this.grid.removeAttribute("aria-activedescendant");
    else this.grid.setAttribute("aria-activedescendant", `${this.uid}-${this.active}`);
    this.drawWords(selected.size);
  }

  drawWords(chosen) {
    const { keys, unlisted, empty } = this.data;
    const filtered = this.order.length === 0 && Boolean(this.filter?.value.trim());
    this.note.textContent = filtered ? "Nothing matches the filter." : keys.length ? "" : empty;
    this.note.hidden = !this.note.textContent;
    const parts = [];
    if (this.order.length < keys.length) parts.push(`${this.order.length} of ${keys.length} shown`);
    if (chosen && this.model.get("multiple")) parts.push(`${chosen} chosen`);
    if (unlisted) parts.push(unlisted);
    if (this.active >= 0) parts.push(this.data.tips[this.order[this.active]].replaceAll("\n", " · "));
    const words = parts.join(" · ") || (this.order.length ? HINT : "");
    if (this.footer.textContent !== words) this.footer.textContent = words;
  }

  rowNode(row, position, selected) {
    const { columns, keys, tips } = this.data;
    const chosen = selected.has(keys[row]);
    const node = make("div", "nbmem-row", null, {
      id: `${this.uid}-${position}`,
      role: "row",
      "aria-rowindex": position + 2,
      "aria-selected": chosen,
      title: tips[row],
    });
    node.style.top = `${position * ROW_HEIGHT}px`;
    if (position === this.active) node.classList.add("nbmem-active");
    if (this.model.get("multiple")) make("div", "nbmem-box", node, { "aria-hidden": "true" });
    for (const column of columns) this.cellNode(node, column, row);
    return node;
  }

  cellNode(parent, column, row) {
    const cell = make("div", this.cellClass(column), parent, { role: "gridcell" });
    if (column.kind === "name") fillName(cell, column.text[row]);
    else if (column.kind === "badge") {
      const badge = make("span", "", cell);
      badge.textContent = column.text[row];
      badge.style.background = column.colour[row];
      badge.style.color = column.ink[row];
    } else cell.textContent = column.text[row];
    if (column.alarm?.[row]) cell.classList.add("nbmem-alarm");
  }

  click(event) {
    // By place, not by node: rows may have been drawn anew between press and release.
    const top = this.spacer.getBoundingClientRect().top;
    const position = Math.floor((event.clientY - top) / ROW_HEIGHT);
    if (position < 0 || position >= this.order.length) return;
    if (event.shiftKey && this.active >= 0) this.chooseRange(this.active, position);
    else this.toggle(position);
    this.activate(position);
    this.drawRows();
  }

  activate(position) {
    this.active = position;
    this.activeKey = this.data.keys[this.order[position]];
  }

  key(event) {
    if (event.target !== this.grid) return;
    const page = this.model.get("visible_rows") - 1;
    const last = this.order.length - 1;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    const jumps = { Home: 0, End: last };
    if (event.key in steps) this.moveTo(this.active + steps[event.key], event);
    else if (event.key in jumps) this.moveTo(jumps[event.key], event);
    else if (event.key === " " || event.key === "Enter") this.toggle(this.active);
    else if (event.key === "Escape") this.choose([]);
    else if (event.key.toLowerCase() === "a" && (event.ctrlKey || event.metaKey)) {
      this.chooseRange(0, last);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  moveTo(position, event) {
    const before = Math.max(0, this.active);
    this.activate(Math.max(0, Math.min(this.order.length - 1, position)));
    const top = this.active * ROW_HEIGHT;
    const seen = (this.model.get("visible_rows") - 1) * ROW_HEIGHT;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    if (top > this.grid.scrollTop + seen) this.grid.scrollTop = top - seen;
    if (event.shiftKey && this.model.get("multiple")) this.chooseRange(before, this.active);
    this.drawRows();
  }

  toggle(position) {
    const key = this.data.keys[this.order[position]];
    if (key === undefined) return;
    const selected = this.model.get("selected");
    const others = this.model.get("multiple") ? selected.filter((other) => other !== key) : [];
    this.choose(selected.includes(key) ? others : [...others, key]);
  }

  chooseRange(from, to) {
    if (!this.model.get("multiple")) return;
    const rows = this.order.slice(Math.min(from, to), Math.max(from, to) + 1);
    const keys = rows.map((row) => this.data.keys[row]);
    this.choose([...new Set([...this.model.get("selected"), ...keys])]);
  }

  choose(keys) {
    this.model.set("selected", keys);
    this.model.save_changes();
    this.drawRows();
  }

  remove() {
    clearTimeout(this.asking);
    this.model.off("msg:custom", this.onMessage);
    this.model.off("change:selected", this.onSelected);
  }
}

export default {
  render({ model, el }) {
    const view = new TableView(model, el);
    return () => view.remove();
  },
};
