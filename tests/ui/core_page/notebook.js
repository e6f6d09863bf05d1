// Cells and their outputs, as little as a notebook page can have. What the file of a notebook would
// keep lies in the tab's storage, so that a reloaded page shows it again, over the same kernel.

const VIEW = "application/vnd.jupyter.widget-view+json";
const STORED = "nbmem-core-page";

function make(tag, className, parent) {
  const node = document.createElement(tag);
  node.className = className;
  parent?.append(node);
  return node;
}

const events = {
  calls: new Map(),
  on(names, call) {
    for (const name of names.split(" ")) this.calls.set(name, call);
  },
  trigger(name, data) {
    this.calls.get(name)?.({ type: name }, data);
  },
};

class OutputArea {
  static mimes = new Map();

  register_mime_type(mime, append) {
    OutputArea.mimes.set(mime, append);
  }

  constructor(node, outputs = []) {
    this.node = node;
    this.outputs = outputs;
    this.keyboard_manager = { register_events: () => {} };
  }

  create_output_subarea(_metadata, className) {
    return [make("div", className)];
  }

  handle_output(message) {
    const { msg_type } = message.header;
    if (msg_type === "execute_input") return;
    this.add({ msg_type, ...message.content });
  }

  handle_clear_output() {
    this.outputs.length = 0;
    this.render();
  }

  add(output) {
    this.outputs.push(output);
    this.draw(output);
    book.store();
  }

  update(content) {
    const { display_id } = content.transient;
    for (const [index, each] of this.outputs.entries()) {
      if (each.transient?.display_id !== display_id) continue;
      if (each.data[VIEW]) this.removeViews();
      this.outputs[index] = { ...each, data: content.data };
      this.fill(this.node.children[index], this.outputs[index]);
      book.store();
    }
  }

  removeViews() {
    events.trigger("clear_output.CodeCell", { output_area: this });
  }

  render() {
    this.removeViews();
    this.node.replaceChildren();
    for (const output of this.outputs) this.draw(output);
  }

  draw(output) {
    this.fill(make("div", "output", this.node), output);
  }

  fill(node, output) {
    const { data } = output;
    node.replaceChildren();
    if (output.msg_type === "stream") make("pre", "", node).textContent = output.text;
    else if (output.msg_type === "error") make("pre", "error", node).textContent = output.evalue;
    else if (!data?.[VIEW] || !this.drawWidget({ ...data[VIEW] }, node)) drawData(data ?? {}, node);
  }

  drawWidget(view, node) {
    try {
      const append = OutputArea.mimes.get(VIEW);
      append.call(this, view, {}, { append: ([made]) => node.append(made) });
      return true;
    } catch {
      return false; // no such model: the page shows what else there is
    }
  }
}

function drawData(data, node) {
  if (data["text/html"]) node.innerHTML = data["text/html"];
  else make("pre", "", node).textContent = data["text/plain"] ?? "";
}

class Cell {
  constructor(code, outputs) {
    this.code = code;
    this.node = make("div", "cell", document.getElementById("notebook"));
    make("pre", "code", this.node).textContent = code;
    this.output_area = new OutputArea(make("div", "outputs", this.node), outputs);
  }

  async run(kernel) {
    this.node.classList.add("running");
    const output = (message) => this.output_area.handle_output(message);
    const content = { code: this.code, silent: false, store_history: true, allow_stdin: false };
    const reply = await kernel.request("execute_request", content, { output });
    this.node.classList.remove("running");
    return reply.content.status;
  }
}

class Notebook {
  constructor() {
    this.metadata = {};
    this.keyboard_manager = { actions: { register: () => {} } };
    this.events = events;
    this.container = { on: () => {} };
    this.cells = [];
  }

  get_cells() {
    return this.cells;
  }

  render_cell_output(cell) {
    cell.output_area.render();
  }

  store() {
    const cells = this.cells.map(({ code, output_area }) => [code, output_area.outputs]);
    sessionStorage.setItem(STORED, JSON.stringify({ id: this.kernel.id, cells }));
  }

  forgetKernel() {
    this.kernel.id = null;
    this.store();
  }

  async open() {
    const stored = JSON.parse(sessionStorage.getItem(STORED) ?? "null");
    this.kernel = new Kernel(stored?.id ?? (await startKernel()));
    this.kernel.updated = ({ content }) => {
      for (const cell of this.cells) cell.output_area.update(content);
    };
    this.cells = (stored?.cells ?? []).map((each) => new Cell(...each));
    await this.kernel.connect();
  }

  run(code) {
    const cell = new Cell(code, []);
    this.cells.push(cell);
    return cell.run(this.kernel);
  }

  async ask(expression) {
    const content = { code: "", silent: true, user_expressions: { answer: expression } };
    const reply = await this.kernel.request("execute_request", content);
    const { answer } = reply.content.user_expressions;
    return answer.status === "ok" ? answer.data["text/plain"] : `${answer.ename}: ${answer.evalue}`;
  }
}

async function startKernel() {
  const kernel = await fetch("/api/kernels", {
    method: "POST",
    body: JSON.stringify({ name: "python3" }),
  });
  return (await kernel.json()).id;
}

const book = new Notebook();
