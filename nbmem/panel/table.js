// A virtualised table: sort by a header, filter, group, choose rows by mouse or keyboard.
// Where the kernel sent every row, the page filters and sorts by itself; else the kernel does.
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

function chosenWords(selected) {
  const groups = [...selected].filter((key) => key < 0).length;
  const rows = selected.size - groups;
  const words = [];
  if (groups) words.push(`${groups} ${groups === 1 ? "group" : "groups"}`);
  if (rows) words.push(`${rows}`);
  return `${words.join(" and ")} chosen`;
}

class TableView {
  constructor(model, el) {
    this.model = model;
    this.uid = `nbmem-table-${++tablesMade}`;
    this.data = { columns: [], keys: [], tips: [], unlisted: "", empty: WAITING, complete: true };
    this.stream = new RowStream();
    this.order = [];
    this.asked = { filter: "", by: "", sort: "", turn: 1 };
    this.active = -1;
    this.build(el);
    this.keyboard = new Keyboard(this.grid);
    this.onMessage = (message, buffers) => this.receive(message, buffers);
    this.onSelected = () => this.reveal();
    model.on("msg:custom", this.onMessage);
    model.on("change:selected", this.onSelected);
    this.resizing = new ResizeObserver(() => requestAnimationFrame(() => this.resize()));
    this.resizing.observe(this.root.parentElement);
    this.drawRows();
    model.send({ type: "hello" });
  }

  build(el) {
    this.root = make("div", "nbmem-table", el);
    if (this.model.get("filterable")) this.buildFilter();
    this.grid = make("div", "nbmem-grid", this.root, {
      ...OWN_KEYS,
      role: this.model.get("groupings").length ? "treegrid" : "grid",
      tabindex: "0",
      "aria-label": this.model.get("label"),
      "aria-multiselectable": String(this.model.get("multiple")),
    });
    this.setHeight();
    this.header = make("div", "nbmem-header nbmem-row", this.grid, { role: "row" });
    this.spacer = make("div", "nbmem-spacer", this.grid, { role: "rowgroup" });
    this.note = make("div", "nbmem-empty", this.grid);
    this.footer = make("div", "nbmem-footer", this.root, { role: "status", "aria-live": "polite" });
    this.grid.addEventListener("scroll", () => this.drawRows());
    this.spacer.addEventListener("click", (event) => this.click(event));
    this.grid.addEventListener("keydown", (event) => this.key(event));
  }

  // Rows that are in sight: more where the panel's two columns leave room below the table.
  get rows() {
    const columns = this.root.closest(".nbmem-columns");
    const roomy = columns && columns.clientWidth > 1.8 * this.root.clientWidth;
    return (roomy && this.model.get("roomy_rows")) || this.model.get("visible_rows");
  }

  resize() {
    const before = this.height;
    this.setHeight();
    if (this.height !== before) this.drawRows();
    else if (this.model.get("fits")) this.fit();
  }

  // Half a row more: one that is cut says that there are others below.
  setHeight() {
    this.height = (this.rows + 1.5) * ROW_HEIGHT;
    this.grid.style.height = `${this.height}px`;
  }

  buildFilter() {
    const line = make("div", "nbmem-asking", this.root);
    this.filter = make("input", "nbmem-filter", line, {
      ...OWN_KEYS,
      type: "search",
      placeholder: "filter: name, [cell], size>1MiB …",
      title: "Words that all match, and category=, module=, cell=, size>, dtype=, shape=, device=",
      "aria-label": `Filter ${this.model.get("label")}`,
      spellcheck: "false",
    });
    this.filter.addEventListener("input", () => {
      this.asked.filter = this.filter.value;
      this.arrange();
      this.grid.scrollTop = 0;
      this.askSoon(300);
    });
    this.by = make("select", "nbmem-by", line, {
      ...OWN_KEYS,
      "aria-label": `Group ${this.model.get("label")}`,
    });
    for (const [by, words] of this.model.get("groupings")) {
      make("option", "", this.by, { value: by }).textContent = words;
    }
    this.by.addEventListener("change", () => {
      this.asked = { ...this.asked, by: this.by.value, sort: "", turn: 1 };
      this.activate(-1);
      this.grid.scrollTop = 0;
      this.askSoon(0);
    });
  }

  askSoon(wait) {
    clearTimeout(this.asking);
    this.asking = setTimeout(() => {
      this.asking = null;
      this.model.send({ type: "ask", ...this.asked });
    }, wait);
  }

  receive(message, buffers) {
    if (message.type !== "rows") return;
    const first = this.data.empty === WAITING;
    if (!this.stream.take(buffers[0])) {
      if (this.stream.lacking) this.model.send({ type: "hello" });
      return;
    }
    this.data = this.readRows();
    this.root.classList.toggle("nbmem-jumps", this.data.of_cells);
    if (!this.asking && (first || !this.data.complete)) this.adopt(this.data.asked);
    this.root.style.setProperty("--nbmem-wide", this.tracks((column) => column.width));
    const narrow = (column) => (column.wide ? null : (column.narrow ?? column.width));
    this.root.style.setProperty("--nbmem-narrow", this.tracks(narrow));
    this.grid.setAttribute("aria-colcount", this.data.columns.length);
    this.drawHeader();
    this.arrange();
  }

  readRows() {
    const { head, lists } = this.stream;
    const columns = head.columns.map((column, index) => {
      const cells = ["text", "sort", "alarm", "bars"].map((name) => [name, lists[`${index}.${name}`]]);
      return { ...column, ...Object.fromEntries(cells) };
    });
    return { ...head, ...lists, columns };
  }

  // Another view of this table, or a page before this one, asked for these rows.
  adopt(asked) {
    this.asked = { ...asked };
    if (!this.filter) return;
    if (this.filter.value !== asked.filter) this.filter.value = asked.filter;
    this.by.value = asked.by;
  }

  tracks(width) {
    const box = this.model.get("multiple") ? ["20px"] : [];
    const tracks = [...box, ...this.data.columns.map(width).filter(Boolean)];
    return `${tracks.join(" ")} var(--nbmem-jump-track)`;
  }

  drawHeader() {
    const focused = [...this.header.querySelectorAll("button")].indexOf(document.activeElement);
    this.header.replaceChildren();
    if (this.model.get("multiple")) make("div", "", this.header, { role: "presentation" });
    for (const column of this.data.columns) {
      const cell = make("div", this.cellClass(column), this.header, { role: "columnheader" });
      const turn = column.id && this.asked.sort === column.id ? this.asked.turn : 0;
      const largest = column.sort ? -turn : turn;
      cell.setAttribute("aria-sort", ["descending", "none", "ascending"][largest + 1]);
      const button = column.id
        ? make("button", "", cell, { ...OWN_KEYS, type: "button", title: column.tip })
        : make("span", "", cell, { title: column.tip });
      const shorter = column.short !== null;
      make("span", shorter ? "nbmem-long" : "", button).textContent = column.label;
      if (shorter) make("span", "nbmem-short", button).textContent = column.short;
      if (column.short === "") button.setAttribute("aria-label", column.label);
      button.append(["\u00a0↓", "", "\u00a0↑"][largest + 1]);
      if (column.id) button.addEventListener("click", () => this.sortBy(column));
    }
    if (focused >= 0) this.header.querySelectorAll("button")[focused]?.focus();
  }

  cellClass(column) {
    return `nbmem-cell nbmem-${column.kind}${column.wide ? " nbmem-wide" : ""}`;
  }

  // Once: the largest, or A, first. Again: the other way round. A third time: as it came.
  sortBy(column) {
    const again = this.asked.sort === column.id;
    if (again && this.asked.turn < 0) Object.assign(this.asked, { sort: "", turn: 1 });
    else Object.assign(this.asked, { sort: column.id, turn: again ? -1 : 1 });
    this.drawHeader();
    this.arrange();
    if (this.filter) this.askSoon(0);
  }

  arrange() {
    const { columns, keys, tips, complete } = this.data;
    this.order = keys.map((_, row) => row);
    if (complete) {
      const words = this.asked.filter.toLowerCase().split(/\s+/).filter(Boolean);
      const textOf = (row) =>
        [tips[row], ...columns.map((c) => c.text[row])].join(" ").toLowerCase();
      // A comparison, as `size>1MiB` is, waits for the kernel: it is no text of a row.
      if (words.length && !/[=<>!]/.test(this.asked.filter)) {
        this.order = this.order.filter((row) => words.every((word) => textOf(row).includes(word)));
      }
      const sorted = columns.find((column) => column.id && column.id === this.asked.sort);
      if (sorted) this.order.sort(this.comparison(sorted));
    }
    this.active = this.order.findIndex((row) => keys[row] === this.activeKey);
    this.drawRows();
  }

  comparison({ sort, text }) {
    const compare = sort
      ? (a, b) => (sort[b] ?? -Infinity) - (sort[a] ?? -Infinity)
      : (a, b) => text[a].localeCompare(text[b], undefined, { numeric: true });
    return (a, b) => this.asked.turn * (compare(a, b) || 0) || a - b;
  }

  drawRows() {
    const first = Math.max(0, Math.floor(this.grid.scrollTop / ROW_HEIGHT) - SPARE_ROWS);
    const shown = this.rows + 2 * SPARE_ROWS;
    const selected = new Set(this.model.get("selected"));
    const rows = this.order.slice(first, first + shown);
    const held = document.activeElement?.closest?.(".nbmem-row");
    const focused = held && this.spacer.contains(held) ? held.dataset.key : null;
    this.spacer.style.height = `${this.order.length * ROW_HEIGHT}px`;
    this.spacer.replaceChildren(...rows.map((row, i) => this.rowNode(row, first + i, selected)));
    if (focused) this.spacer.querySelector(`[data-key="${focused}"] .nbmem-jump`)?.focus();
    if (this.model.get("fits")) this.fit();
    this.grid.setAttribute("aria-rowcount", this.order.length + 1);
    if (this.active < 0) this.grid.removeAttribute("aria-activedescendant");
    else this.grid.setAttribute("aria-activedescendant", `${this.uid}-${this.active}`);
    this.drawWords(selected);
  }

  fit() {
    const rows = Math.max(this.order.length, 1) + 1;
    this.grid.style.height = `${Math.min(this.height, rows * ROW_HEIGHT)}px`;
  }

  drawWords(selected) {
    const { keys, unlisted, empty, trouble } = this.data;
    const nothing = this.filter?.value.trim() ? "Nothing matches the filter." : empty;
    this.note.textContent = this.order.length ? "" : trouble || nothing;
    this.note.hidden = !this.note.textContent;
    const tells = this.model.get("multiple") && this.model.get("tells");
    const parts = [];
    if (this.order.length < keys.length) parts.push(`${this.order.length} of ${keys.length} shown`);
    if (selected.size && tells) parts.push(chosenWords(selected));
    if (unlisted) parts.push(unlisted);
    if (this.active >= 0 && tells) parts.push(this.data.tips[this.order[this.active]].replaceAll("\n", " · "));
    const words = parts.join(" · ") || (this.order.length ? HINT : "");
    if (this.footer.textContent !== words) this.footer.textContent = words;
    this.footer.hidden = !tells && !unlisted;
  }

  rowNode(row, position, selected) {
    const { columns, keys, tips, parents } = this.data;
    const parent = parents?.[row] ?? 0;
    const chosen = selected.has(keys[row]) || selected.has(parent);
    const node = make("div", "nbmem-row", null, {
      id: `${this.uid}-${position}`,
      role: "row",
      "aria-rowindex": position + 2,
      "aria-selected": chosen,
      title: tips[row],
      "data-key": keys[row],
    });
    node.style.top = `${position * ROW_HEIGHT}px`;
    if (parents) node.setAttribute("aria-level", parent ? 2 : 1);
    if (parent) node.classList.add("nbmem-part");
    if (position === this.active) node.classList.add("nbmem-active");
    if (this.model.get("multiple")) make("div", "nbmem-box", node, { "aria-hidden": "true" });
    columns.forEach((column, index) => {
      const cell = this.cellNode(node, column, row);
      if (index === 0 && parents && !parent) this.addTwist(node, cell, keys[row]);
    });
    this.addJump(node, row, position);
    return node;
  }

  // Only the row that the keyboard is on has its button among the page's tab stops.
  addJump(node, row, position) {
    if (!this.data.of_cells) return;
    const cell = make("div", "nbmem-jump-cell", node, { role: "gridcell" });
    const place = this.data.places[row];
    if (!place) return;
    const words = place.number === null ? "Go to its cell" : `Go to cell [${place.number}]`;
    const tabindex = position === Math.max(this.active, 0) ? 0 : -1;
    const told = { type: "button", title: words, "aria-label": words, tabindex };
    const button = make("button", "nbmem-jump", cell, { ...OWN_KEYS, ...told });
    button.textContent = "↗";
    button.addEventListener("click", (event) => {
      event.stopPropagation();
      jump(button, place);
    });
  }

  addTwist(node, cell, key) {
    const open = this.data.opened.includes(key);
    node.setAttribute("aria-expanded", open);
    const twist = make("span", "nbmem-twist", null, { "aria-hidden": "true" });
    twist.textContent = open ? "▾" : "▸";
    cell.prepend(twist);
  }

  cellNode(parent, column, row) {
    const cell = make("div", this.cellClass(column), parent, { role: "gridcell" });
    const text = column.text[row];
    if (column.kind === "name") fillName(cell, text);
    else if (column.kind === "letter") this.fillLetter(cell, text);
    else if (column.kind === "bar") this.fillBar(cell, column.bars[row]);
    else cell.textContent = text;
    if (column.alarm?.[row]) cell.classList.add("nbmem-alarm");
    return cell;
  }

  fillLetter(cell, letter) {
    const [, colour, ink] = this.data.palette.find((entry) => entry[0] === letter) ?? [];
    if (!colour) return;
    const box = make("span", "", cell);
    box.textContent = letter;
    box.style.background = colour;
    box.style.color = ink;
  }

  fillBar(cell, parts) {
    const words = parts.map(([category]) => this.data.palette[category][3]).join(", ");
    const bar = make("div", "nbmem-stack", cell, { role: "img", "aria-label": words });
    for (const [category, percent] of parts) {
      const part = make("span", "", bar);
      part.style.width = `${percent}%`;
      part.style.background = this.data.palette[category][1];
    }
  }

  click(event) {
    // By place, not by node: rows may have been drawn anew between press and release.
    const top = this.spacer.getBoundingClientRect().top;
    const position = Math.floor((event.clientY - top) / ROW_HEIGHT);
    if (position < 0 || position >= this.order.length) return;
    if (event.target.closest(".nbmem-twist")) this.turn(position);
    else if (event.shiftKey && this.active >= 0) this.chooseRange(this.active, position);
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
    const twists = { ArrowRight: "false", ArrowLeft: "true" };
    const page = this.rows - 1;
    const last = this.order.length - 1;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    const jumps = { Home: 0, End: last };
    if (event.key in steps) this.moveTo(this.active + steps[event.key], event);
    else if (event.key in jumps) this.moveTo(jumps[event.key], event);
    else if (event.key in twists) this.turn(this.active, twists[event.key]);
    else if (event.key === " " || event.key === "Enter") this.toggle(this.active);
    else if (event.key === "Escape") this.choose([]);
    else if (event.key.toLowerCase() === "a" && (event.ctrlKey || event.metaKey)) {
      this.chooseRange(0, last);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Opens or closes a group; with `from` only one that is just that: "true" is open.
  turn(position, from) {
    const key = this.data.keys[this.order[position]];
    const { parents, opened } = this.data;
    if (!parents || parents[this.order[position]]) return;
    if (from !== undefined && String(opened.includes(key)) !== from) return;
    this.model.send({ type: "turn", key });
  }

  moveTo(position, event) {
    const before = Math.max(0, this.active);
    this.activate(Math.max(0, Math.min(this.order.length - 1, position)));
    const top = this.active * ROW_HEIGHT;
    const seen = (this.rows - 1) * ROW_HEIGHT;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    if (top > this.grid.scrollTop + seen) this.grid.scrollTop = top - seen;
    if (event.shiftKey && this.model.get("multiple")) this.chooseRange(before, this.active);
    this.drawRows();
  }

  // The row of a bar that was chosen comes into sight.
  reveal() {
    const [key, ...others] = this.model.get("selected");
    const position = this.order.findIndex((row) => this.data.keys[row] === key);
    if (position >= 0 && !others.length && !this.model.get("multiple")) {
      const top = position * ROW_HEIGHT;
      const seen = (this.rows - 1) * ROW_HEIGHT;
      const { scrollTop } = this.grid;
      if (top < scrollTop || top > scrollTop + seen) this.grid.scrollTop = top - seen / 2;
    }
    this.drawRows();
  }

  toggle(position) {
    const key = this.data.keys[this.order[position]];
    if (key === undefined) return;
    const selected = this.model.get("selected");
    const parent = this.data.parents?.[this.order[position]];
    if (parent && selected.includes(parent)) return this.chooseWithout(key, parent);
    const others = this.model.get("multiple") ? selected.filter((other) => other !== key) : [];
    this.choose(selected.includes(key) ? others : [...others, key]);
  }

  // One of a chosen group is left out: the rest of its rows stay chosen, one by one.
  chooseWithout(key, parent) {
    const { keys, parents } = this.data;
    const rest = keys.filter((other, row) => parents[row] === parent && other !== key);
    const others = this.model.get("selected").filter((other) => other !== parent);
    this.choose([...new Set([...others, ...rest])]);
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
    this.resizing.disconnect();
    this.keyboard.remove();
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
