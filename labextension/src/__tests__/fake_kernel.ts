import type { Kernel } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import { BROADCAST } from '../tokens';

/** What a fake kernel has: expressions of the probe answer with these. */
export interface IHas {
  target: boolean;
  loaded: boolean;
  installed: boolean;
  torch: boolean;
}

/** A comm whose kernel side is played by the test. */
export class FakeComm {
  onMsg: (message: unknown) => void = () => undefined;
  onClose: () => void = () => undefined;
  commId = 'comm-1';
  targetName = 'nbmem';
  commsOverSubshells: string | undefined;
  subshellStarted: Promise<void> | undefined;
  isDisposed = false;
  opened: unknown = null;
  sent: unknown[] = [];
  closed = false;

  open(data: unknown): void {
    this.opened = data;
  }

  send(data: unknown): void {
    this.sent.push(data);
  }

  close(): void {
    this.closed = true;
    this.isDisposed = true;
    this.onClose();
  }

  dispose(): void {
    this.isDisposed = true;
  }

  /** The kernel says something over this comm. */
  say(data: unknown): void {
    this.onMsg({ content: { data } });
  }
}

type Reply = { content: Record<string, unknown> };

/** A kernel without a server: its answers are fields, what it was asked is a list. */
export class FakeKernel {
  constructor(has: Partial<IHas> = {}) {
    this.has = { target: false, loaded: false, installed: true, torch: true, ...has };
  }

  has: IHas;
  id = 'kernel-1';
  clientId = 'client';
  username = 'user';
  status: Kernel.Status = 'idle';
  connectionStatus: Kernel.ConnectionStatus = 'connected';
  handleComms = true;
  isDisposed = false;
  supportsSubshells = false;
  info: Promise<unknown> = Promise.resolve({ language_info: { name: 'python' } });
  statusChanged = new Signal<this, Kernel.Status>(this);
  connectionStatusChanged = new Signal<this, Kernel.ConnectionStatus>(this);
  iopubMessage = new Signal<this, unknown>(this);

  /** Names of the questions of each probe. */
  probes: string[][] = [];
  comms: FakeComm[] = [];
  /** Types of what was sent over the control channel. */
  controls: string[] = [];
  shells: { header: Record<string, unknown>; content: Record<string, unknown> }[] = [];
  loads = 0;
  /** The reply to `%load_ext`, and to probes while a cell runs. */
  loading: Promise<Reply> = Promise.resolve({ content: { status: 'ok' } });
  /** Replies of the control channel by type; the others never come. */
  control: Record<string, Record<string, unknown>> = {};
  /** Ids of its widgets. */
  widgets: string[] = [];
  /** Whether probes wait for a cell. */
  mute = false;
  newComm: () => FakeComm = () => new FakeComm();

  requestExecute(content: { code: string; user_expressions?: Record<string, string> }) {
    if (content.code !== '') {
      this.loads += 1;
      return { done: this.loading };
    }
    const names = Object.keys(content.user_expressions ?? {});
    this.probes.push(names);
    const never = new Promise<Reply>(() => undefined);
    return { done: this.mute ? never : Promise.resolve(this._answer(names)) };
  }

  requestCommInfo() {
    const content = { status: 'ok', comms: Object.fromEntries(this.widgets.map(id => [id, {}])) };
    return this.mute ? new Promise(() => undefined) : Promise.resolve({ content });
  }

  createComm(): FakeComm {
    const comm = this.newComm();
    this.comms.push(comm);
    return comm;
  }

  sendControlMessage(message: { header: { msg_type: string } }) {
    const type = message.header.msg_type;
    this.controls.push(type);
    const content = this.control[type];
    return { done: content ? Promise.resolve({ content }) : new Promise(() => undefined) };
  }

  sendShellMessage(message: FakeKernel['shells'][number]) {
    this.shells.push(message);
  }

  /** The newest comm. */
  get comm(): FakeComm {
    return this.comms[this.comms.length - 1];
  }

  /** The kernel's status changes. */
  turn(status: Kernel.Status): void {
    this.status = status;
    this.statusChanged.emit(status);
  }

  /** The page's connection changes. */
  connect(status: Kernel.ConnectionStatus): void {
    this.connectionStatus = status;
    this.connectionStatusChanged.emit(status);
  }

  /** A cell runs, from its input to the idle status. */
  run(): void {
    const parent = { msg_type: 'execute_request' };
    this.publish('execute_input', {}, parent);
    this.publish('status', { execution_state: 'idle' }, parent);
  }

  /** The kernel says something to every page. */
  broadcast(data: unknown): void {
    this.publish('comm_msg', { comm_id: BROADCAST, data });
  }

  publish(type: string, content: object, parent: object = {}): void {
    this.iopubMessage.emit({ header: { msg_type: type }, parent_header: parent, content });
  }

  private _answer(names: string[]): Reply {
    const answers = names.map(name => {
      const text = this.has[name as keyof IHas] ? 'True' : 'False';
      return [name, { status: 'ok', data: { 'text/plain': text }, metadata: {} }];
    });
    return { content: { status: 'ok', user_expressions: Object.fromEntries(answers) } };
  }
}
