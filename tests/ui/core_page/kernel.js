// A kernel behind a Jupyter server, in the words that the classic notebook has for it: messages
// over a WebSocket, and comms. Everything goes over the shell channel, one after the other.

const RANDOM = () => crypto.randomUUID().replaceAll("-", "");

class Comm {
  constructor(target_name, comm_id) {
    this.target_name = target_name;
    this.comm_id = comm_id ?? RANDOM();
    this.heard = () => {};
    this.closed = () => {};
  }

  on_msg(call) {
    this.heard = call;
  }

  on_close(call) {
    this.closed = call;
  }

  open(data, callbacks, metadata, buffers) {
    const content = { comm_id: this.comm_id, target_name: this.target_name, data: data ?? {} };
    return this.kernel.send_shell_message("comm_open", content, callbacks, metadata, buffers);
  }

  send(data, callbacks, metadata, buffers) {
    const content = { comm_id: this.comm_id, data };
    return this.kernel.send_shell_message("comm_msg", content, callbacks, metadata, buffers);
  }

  close(data, callbacks, metadata, buffers) {
    this.kernel.comm_manager.comms.delete(this.comm_id);
    const content = { comm_id: this.comm_id, data: data ?? {} };
    return this.kernel.send_shell_message("comm_close", content, callbacks, metadata, buffers);
  }
}

class CommManager {
  constructor(kernel) {
    this.kernel = kernel;
    this.comms = new Map();
    this.targets = new Map();
  }

  register_target(name, opened) {
    this.targets.set(name, opened);
  }

  register_comm(comm) {
    comm.kernel = this.kernel;
    this.comms.set(comm.comm_id, comm);
  }

  new_comm(target_name, data, callbacks, metadata, comm_id, buffers) {
    const comm = new Comm(target_name, comm_id);
    this.register_comm(comm);
    comm.open(data, callbacks, metadata, buffers);
    return comm;
  }

  receive(message) {
    const { msg_type } = message.header;
    const { comm_id, target_name } = message.content;
    const comm = this.comms.get(comm_id);
    if (msg_type === "comm_open" && this.targets.has(target_name)) {
      const made = new Comm(target_name, comm_id);
      this.register_comm(made);
      Promise.resolve(this.targets.get(target_name)(made, message)).catch((error) => {
        console.warn(`comm ${comm_id}: ${error}`);
      });
    } else if (msg_type === "comm_msg") {
      comm?.heard(message);
    } else if (msg_type === "comm_close") {
      this.comms.delete(comm_id);
      comm?.closed(message);
    }
  }
}

function decode(data) {
  if (typeof data === "string") return JSON.parse(data);
  // Buffers: their number, where each begins (the message first), then all of them.
  const view = new DataView(data);
  const starts = Array.from({ length: view.getUint32(0) }, (_, n) => view.getUint32(4 + 4 * n));
  const parts = starts.map((start, n) => new DataView(data.slice(start, starts[n + 1])));
  const message = JSON.parse(new TextDecoder().decode(parts[0]));
  return { ...message, buffers: parts.slice(1) };
}

class Kernel {
  constructor(id) {
    this.id = id;
    this.session = RANDOM();
    this.comm_manager = new CommManager(this);
    this.callbacks = new Map();
  }

  async connect() {
    const address = `${location.origin.replace("http", "ws")}/api/kernels/${this.id}/channels`;
    this.socket = new WebSocket(`${address}?session_id=${this.session}`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = (event) => this.receive(decode(event.data));
    await new Promise((resolve) => (this.socket.onopen = resolve));
    await this.request("kernel_info_request", {});
  }

  is_connected() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  send_shell_message(msg_type, content, callbacks = {}, metadata = {}, buffers = []) {
    if (buffers.length) throw new Error("This page sends no buffers: core widgets have none.");
    const msg_id = RANDOM();
    const header = { msg_id, msg_type, session: this.session, username: "", version: "5.3" };
    header.date = new Date().toISOString();
    this.callbacks.set(msg_id, callbacks ?? {});
    const message = { header, parent_header: {}, metadata: metadata ?? {}, content };
    this.socket.send(JSON.stringify({ ...message, channel: "shell", buffers: [] }));
    return msg_id;
  }

  request(msg_type, content, iopub = {}) {
    return new Promise((resolve) => {
      this.send_shell_message(msg_type, content, { iopub, shell: { reply: resolve } });
    });
  }

  comm_info(target_name, call) {
    this.request("comm_info_request", { target_name }).then(call);
  }

  receive(message) {
    const { msg_type } = message.header;
    const { iopub, shell } = this.callbacks.get(message.parent_header.msg_id) ?? {};
    if (msg_type.startsWith("comm_") && message.channel === "iopub") {
      this.comm_manager.receive(message);
    } else if (msg_type === "status") {
      iopub?.status?.(message);
    } else if (msg_type === "update_display_data") {
      this.updated?.(message);
    } else if (message.channel === "iopub") {
      iopub?.output?.(message);
    } else {
      shell?.reply?.(message);
    }
  }
}
