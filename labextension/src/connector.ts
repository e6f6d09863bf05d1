import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { JSONObject } from '@lumino/coreutils';
import { IFound, LoadFailure, loadExtension, probe } from './probe';
import type { Ending, PanelState } from './states';
import { askControl, hasSubshells, IAbout, openOverControl, subshellOf, within } from './subshell';
import { BROADCAST, FromKernel, IOpening, PROTOCOL, TARGET, ToKernel } from './tokens';
import { readMessage } from './validate';

/** Who is told what one kernel says, and where the page stands with it. */
export interface IListener {
  /** Where the page stands while there is no channel. */
  stands(state: PanelState): void;
  /** A message that was checked. */
  heard(message: FromKernel): void;
  /** A message that cannot be read: the field that is wrong. */
  stumbled(what: string): void;
  /** The connection to the server is lost, or is there again. */
  offline(lost: boolean): void;
  /** The kernel's process is gone; `dead`: no other takes its place. */
  ended(how: Ending, dead: boolean): void;
}

/** The channel to one kernel. */
export interface IConnector {
  attach(): void;
  load(): void;
  send(message: ToKernel): void;
  dispose(): void;
}

/** Milliseconds to wait: for what a page knows after its first look, for an idle kernel's answer, and
 * for a subshell. */
export interface IPatience {
  info: number;
  answer: number;
  subshell: number;
}

const PATIENCE: IPatience = { info: 500, answer: 1_500, subshell: 3_000 };

/**
 * `apart`: no channel. `asking`: an attempt is on. `loading`: the button was pressed. `met`: the
 * kernel has answered. `refused`: its nbmem speaks another protocol.
 */
type Stage = 'apart' | 'asking' | 'loading' | 'met' | 'refused';

/**
 * The only one who talks to a kernel: finds out whether nbmem is there, opens the comm, hears
 * broadcasts, and begins anew after a restart.
 *
 * Nothing is asked at intervals: a kernel without nbmem is looked at again when a cell has run.
 */
export class Connector implements IConnector {
  constructor(
    private _kernel: Kernel.IKernelConnection,
    private _to: IListener,
    private _opening: Omit<IOpening, 'protocol'>,
    private _patience: IPatience = PATIENCE
  ) {
    _kernel.statusChanged.connect(this._onStatus, this);
    _kernel.connectionStatusChanged.connect(this._onConnection, this);
    _kernel.iopubMessage.connect(this._onIopub, this);
  }

  attach(): void {
    void this._attach(false);
  }

  load(): void {
    void this._load();
  }

  send(message: ToKernel): void {
    if (this._stage === 'met' && this._comm !== null && !this._comm.isDisposed) {
      this._comm.send(message);
    }
  }

  dispose(): void {
    this._turn++;
    this._kernel.statusChanged.disconnect(this._onStatus, this);
    this._kernel.connectionStatusChanged.disconnect(this._onConnection, this);
    this._kernel.iopubMessage.disconnect(this._onIopub, this);
    this._drop();
  }

  private async _attach(quiet: boolean): Promise<void> {
    const turn = this._begin();
    if (this._kernel.status === 'dead') {
      this._stage = 'apart';
      this._to.ended('died', true);
      return;
    }
    if (!this._kernel.handleComms) {
      this._stand({ kind: 'no-comms' });
      return;
    }
    if (!quiet) {
      this._to.stands({ kind: 'starting', why: 'asking' });
    }
    const about = await this._about();
    if (turn !== this._turn) {
      return;
    }
    if (about === null) {
      await this._kernel.info.catch(() => null); // it starts, or says nothing while a cell runs
      if (turn === this._turn) {
        void this._attach(true);
      }
    } else if (!/^i?python/i.test(about.language)) {
      this._stand({ kind: 'other-language', language: about.language });
    } else if (this._kernel.status === 'busy') {
      await this._attachBusy(turn, about);
    } else {
      await this._attachIdle(turn, about);
    }
  }

  /** Says what the kernel is, by the control channel where a cell keeps it from answering. */
  private async _about(): Promise<IAbout | null> {
    const info = await within(this._kernel.info, this._patience.info);
    if (info !== null) {
      return { language: info.language_info.name, subshells: hasSubshells(this._kernel) };
    }
    return this._kernel.connectionStatus === 'connected'
      ? askControl(this._kernel).catch(() => null)
      : null;
  }

  private async _attachIdle(turn: number, about: IAbout): Promise<void> {
    const asked = probe(this._kernel, this._known).catch(() => null);
    const soon = await Promise.race([asked.then(found => ({ found })), pause(this._patience.answer)]);
    if (turn !== this._turn) {
      return;
    }
    if (soon === undefined) {
      await this._attachBusy(turn, about);
      return;
    }
    const { found } = soon;
    this._known = { installed: found?.installed, torch: found?.torch };
    if (found?.target) {
      await this._open(turn, null);
    } else if (found?.loaded) {
      this._stand({ kind: 'mismatch', older: 'kernel', version: '' }); // from before the channel
    } else {
      this._stand(missing(found));
    }
  }

  /** Without subshells nothing is asked before the kernel is idle. */
  private async _attachBusy(turn: number, about: IAbout): Promise<void> {
    this._to.stands({ kind: 'waiting', sentence: '' });
    if (about.subshells) {
      await this._open(turn, about);
    } else {
      this._waits = true;
    }
  }

  /** Opens the comm; with `about` while a cell runs, when only a subshell can answer. */
  private async _open(turn: number, about: IAbout | null): Promise<void> {
    const comm = this._kernel.createComm(TARGET);
    this._comm = comm;
    comm.onMsg = message => this._onMessage(comm, message.content.data);
    comm.onClose = () => this._onClose(comm);
    const opening: JSONObject = { protocol: PROTOCOL, ...this._opening };
    if (about !== null && !hasSubshells(this._kernel)) {
      this._opened = true;
      this._endSubshell = await openOverControl(this._kernel, comm, opening);
      return;
    }
    await subshellOf(this._kernel, comm, this._patience.subshell);
    if (turn === this._turn && !comm.isDisposed) {
      this._opened = true;
      comm.open(opening);
    }
  }

  private async _load(): Promise<void> {
    const turn = this._begin();
    this._stage = 'loading';
    this._to.stands({ kind: 'not-loaded', loading: true, failed: '' });
    const failure = await loadExtension(this._kernel).catch(noReply);
    if (turn !== this._turn) {
      return;
    }
    this._ran = false;
    if (failure === null) {
      await this._attach(true);
    } else {
      this._stand(failed(failure));
    }
  }

  private _onMessage(comm: Kernel.IComm, data: unknown): void {
    if (comm === this._comm) {
      this._take(data, true);
    }
  }

  private _onClose(comm: Kernel.IComm): void {
    if (comm !== this._comm) {
      return;
    }
    const met = this._stage === 'met';
    this._comm = null;
    this._opened = false;
    if (met && !this._retried) {
      this._retried = true;
      void this._attach(true);
    } else {
      this._stand({ kind: 'not-loaded', loading: false, failed: '' });
    }
  }

  private _take(data: unknown, own: boolean): void {
    const reading = readMessage(data);
    if (reading.kind === 'mismatch') {
      this._refuse(reading.theirs > PROTOCOL ? 'page' : 'kernel', reading.version);
    } else if (reading.kind === 'malformed') {
      this._to.stumbled(reading.what);
    } else if (reading.message.type === 'bye') {
      this._leave(reading.message);
    } else if (own && reading.message.type === 'hello') {
      this._meet(reading.message);
    } else if (this._stage === 'met' || reading.message.type === 'live') {
      this._to.heard(reading.message);
    }
  }

  private _meet(hello: FromKernel): void {
    this._stage = 'met';
    this._waits = false;
    this._endSubshell?.();
    this._endSubshell = null;
    this._to.heard(hello);
  }

  private _leave(bye: FromKernel): void {
    if (this._stage !== 'met') {
      return;
    }
    this._begin();
    this._to.heard(bye);
    this._stand({ kind: 'not-loaded', loading: false, failed: '' });
  }

  private _onIopub(_: unknown, message: KernelMessage.IIOPubMessage): void {
    const type = message.header.msg_type;
    const content = message.content as { comm_id?: string; data?: unknown; execution_state?: string };
    if (type === 'comm_msg' && content.comm_id === BROADCAST) {
      this._onBroadcast(content.data);
    } else if (type === 'execute_input') {
      this._ran = true;
      this._called = this._retried = false;
    } else if (type === 'status' && content.execution_state === 'idle') {
      this._onIdle(message);
    }
  }

  /** A kernel that speaks to every page has nbmem: one that was taken for without it is asked. */
  private _onBroadcast(data: unknown): void {
    if (this._stage === 'refused') {
      return;
    }
    if (this._stage === 'apart' && !this._called) {
      this._called = true;
      void this._attach(true);
    } else if (this._stage !== 'apart') {
      this._take(data, false);
    }
  }

  private _onIdle(message: KernelMessage.IIOPubMessage): void {
    const parent = (message.parent_header as { msg_type?: string }).msg_type;
    if (parent === 'execute_request' && this._ran) {
      this._ran = false;
      if (this._stage === 'apart' || this._waits) {
        void this._attach(true);
      }
    }
  }

  private _onStatus(_: unknown, status: Kernel.Status): void {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this._begin();
      this._stage = 'apart';
      this._restarts = status !== 'dead';
      this._known = {};
      this._to.ended(status === 'restarting' ? 'restarted' : 'died', status === 'dead');
    } else if (status === 'idle' && (this._restarts || this._waits)) {
      this._restarts = this._waits = false;
      void this._attach(true);
    }
  }

  private _onConnection(_: unknown, status: Kernel.ConnectionStatus): void {
    if (this._restarts) {
      return;
    }
    if (status !== 'connected') {
      this._lost = this._lost || this._stage === 'met';
      if (this._lost) {
        this._to.offline(true);
      }
    } else if (this._lost) {
      this._lost = false;
      this._to.offline(false);
      void this._attach(true);
    }
  }

  private _begin(): number {
    this._drop();
    this._stage = 'asking';
    this._waits = false;
    return ++this._turn;
  }

  private _stand(state: PanelState): void {
    this._drop();
    this._stage = 'apart';
    this._to.stands(state);
  }

  private _refuse(older: 'page' | 'kernel', version: string): void {
    this._drop();
    this._stage = 'refused';
    this._to.stands({ kind: 'mismatch', older, version });
  }

  /** Leaves the comm: the kernel is told where it knows of it. */
  private _drop(): void {
    const comm = this._comm;
    this._comm = null;
    this._endSubshell?.();
    const known = this._opened || this._endSubshell !== null;
    this._endSubshell = null;
    this._opened = false;
    if (comm === null || comm.isDisposed) {
      return;
    }
    if (known && !this._kernel.isDisposed && this._kernel.status !== 'dead') {
      comm.close();
    } else {
      comm.dispose();
    }
  }

  private _turn = 0;
  private _stage: Stage = 'apart';
  private _comm: Kernel.IComm | null = null;
  private _opened = false;
  private _endSubshell: (() => void) | null = null;
  private _known: Partial<IFound> = {};
  private _ran = false;
  private _waits = false;
  private _restarts = false;
  private _lost = false;
  private _called = false;
  private _retried = false;
}

function pause(time: number): Promise<undefined> {
  return new Promise(resolve => setTimeout(() => resolve(undefined), time));
}

function noReply(): LoadFailure {
  return { kind: 'other', sentence: '' };
}

function missing(found: IFound | null): PanelState {
  if (found !== null && !found.installed) {
    return { kind: 'no-package' };
  }
  return found !== null && !found.torch
    ? { kind: 'no-torch', sentence: '' }
    : { kind: 'not-loaded', loading: false, failed: '' };
}

function failed(failure: LoadFailure): PanelState {
  return failure.kind === 'other'
    ? { kind: 'not-loaded', loading: false, failed: failure.sentence }
    : failure;
}
