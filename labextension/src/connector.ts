import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { Channel } from './channel';
import { Finding, IPatience, lookInto } from './look';
import type { IConnector, IListener } from './listener';
import { readNews } from './news';
import { failed, mismatch, missing, noReply, NOT_LOADED } from './outcomes';
import { hasWidget, IFound, loadExtension } from './probe';
import type { PanelState } from './states';
import { within } from './subshell';
import { FromKernel, IOpening, IPanelBuilt, PROTOCOL, ToKernel } from './tokens';
import { readMessage } from './validate';

const PATIENCE: IPatience = { info: 500, answer: 1_500, subshell: 3_000, hello: 6_000 };

/** Times that a look without an answer is taken again. */
const TRIES = 3;

const WAITING: PanelState = { kind: 'waiting', sentence: '' };

/**
 * `apart`: no channel. `asking`: an attempt is on. `loading`: the button was pressed. `met`: the
 * kernel has answered. `refused`: its nbmem speaks another protocol.
 */
type Stage = 'apart' | 'asking' | 'loading' | 'met' | 'refused';

/**
 * The only one who follows a kernel: finds out whether nbmem is there, opens the channel, hears
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
    this._attach(false);
  }

  load(): void {
    void this._load();
  }

  send(message: ToKernel): void {
    if (this._stage === 'met') {
      this._channel?.send(message);
    }
  }

  dispose(): void {
    this._begin();
    this._kernel.statusChanged.disconnect(this._onStatus, this);
    this._kernel.connectionStatusChanged.disconnect(this._onConnection, this);
    this._kernel.iopubMessage.disconnect(this._onIopub, this);
  }

  private _attach(quiet: boolean): void {
    const turn = this._begin();
    this._meet(turn, quiet).catch(() => {
      if (turn === this._turn && !this._kernel.isDisposed) {
        this._stand(NOT_LOADED);
      }
    });
  }

  private async _meet(turn: number, quiet: boolean): Promise<void> {
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
    const finding = await lookInto(this._kernel, this._known, this._patience);
    if (turn === this._turn) {
      await this._act(turn, finding);
    }
  }

  private async _act(turn: number, finding: Finding): Promise<void> {
    switch (finding.kind) {
      case 'mute':
        await this._kernel.info.catch(() => null);
        if (turn === this._turn) {
          this._attach(true);
        }
        break;
      case 'foreign':
        this._stand({ kind: 'other-language', language: finding.language });
        break;
      case 'busy':
        this._ran = true; // its cell, which may have begun before this page
        this._unasked = true;
        this._to.stands(WAITING);
        if (finding.about.subshells) {
          await this._open(true);
        } else {
          this._waits = true; // nothing is asked before the kernel is idle
        }
        break;
      case 'answered':
        this._unasked = false;
        if (finding.found === null && this._unanswered++ < TRIES) {
          this._attach(true); // a cell before it failed, and took all that waited along
        } else {
          this._unanswered = 0;
          await this._judge(finding.found);
        }
        break;
    }
  }

  private async _judge(found: IFound | null): Promise<void> {
    this._known = { installed: found?.installed, torch: found?.torch };
    if (found?.target) {
      await this._open(false);
    } else {
      this._stand(missing(found));
    }
  }

  private async _open(busy: boolean): Promise<void> {
    if (this._kernel.isDisposed) {
      return;
    }
    this._slow = setTimeout(() => this._to.stands(WAITING), this._patience.hello);
    this._channel = new Channel(this._kernel, {
      received: data => this._take(data, true),
      closed: () => this._onClosed()
    });
    const opening = { protocol: PROTOCOL, ...this._opening };
    await this._channel.open(opening, busy, this._patience.subshell);
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
      this._attach(true);
    } else {
      this._stand(failed(failure));
    }
  }

  /** A channel that breaks is opened once more; the kernel may have reloaded nbmem. */
  private _onClosed(): void {
    if (this._stage === 'met' && !this._retried) {
      this._retried = true;
      this._attach(true);
    } else {
      const unasked = this._unasked;
      this._stand(NOT_LOADED);
      if (unasked && this._unanswered++ < TRIES) {
        this._askWhy();
      }
    }
  }

  /** What a kernel without the channel lacks is found out as soon as it is idle. */
  private _askWhy(): void {
    if (this._kernel.status === 'idle') {
      this._attach(true);
    } else {
      this._waits = true;
    }
  }

  private _take(data: unknown, own: boolean): void {
    const reading = readMessage(data);
    if (reading.kind === 'mismatch') {
      this._stand(mismatch(reading.theirs, reading.version));
      this._stage = 'refused';
    } else if (reading.kind === 'malformed') {
      this._to.stumbled(reading.what);
    } else if (reading.message.type === 'bye') {
      this._part(reading.message);
    } else if (own && reading.message.type === 'hello') {
      this._stage = 'met';
      this._waits = false;
      clearTimeout(this._slow);
      this._channel?.settle();
      this._to.heard(reading.message);
    } else if (this._stage === 'met' && reading.message.type === 'panel') {
      void this._check(this._turn, reading.message);
    } else if (this._stage === 'met' || reading.message.type === 'live') {
      this._to.heard(reading.message);
    }
  }

  /** A widget that the kernel does not have is not shown, and what is there stays. */
  private async _check(turn: number, message: IPanelBuilt): Promise<void> {
    const { model_id: id } = message;
    const has = id === null || (await within(hasWidget(this._kernel, id), this._patience.info));
    if (turn !== this._turn) {
      return;
    }
    if (has === false) {
      this._to.stumbled('panel');
    } else {
      this._to.heard(message);
    }
  }

  private _part(bye: FromKernel): void {
    if (this._stage === 'met') {
      this._begin();
      this._to.heard(bye);
      this._stand(NOT_LOADED);
    }
  }

  private _onIopub(_: unknown, message: KernelMessage.IIOPubMessage): void {
    const news = readNews(message);
    if (news?.kind === 'broadcast') {
      this._onBroadcast(news.data);
    } else if (news?.kind === 'input') {
      this._ran = true;
      this._called = this._retried = false;
    } else if (news?.kind === 'ended' && this._ran) {
      this._ran = false;
      if (this._stage === 'apart' || this._waits) {
        this._attach(true);
      }
    }
  }

  /** A kernel that speaks to every page has nbmem: one that was taken for without it is asked. */
  private _onBroadcast(data: unknown): void {
    if (this._stage === 'apart' && !this._called) {
      this._called = true;
      this._attach(true);
    } else if (this._stage !== 'apart' && this._stage !== 'refused') {
      this._take(data, false);
    }
  }

  private _onStatus(_: unknown, status: Kernel.Status): void {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this._begin();
      this._stage = 'apart';
      this._restarts = status !== 'dead';
      this._known = {};
      this._to.ended(status === 'restarting' ? 'restarted' : 'died', status === 'dead');
    } else if (status === 'idle' && this._waits) {
      this._attach(true);
    }
  }

  private _onConnection(_: unknown, status: Kernel.ConnectionStatus): void {
    if (this._restarts) {
      // the new kernel has a new connection: what was sent over the old one is lost
      this._restarts = status !== 'connected';
      if (!this._restarts) {
        this._attach(true);
      }
    } else if (status !== 'connected' && (this._lost || this._stage === 'met')) {
      this._lost = true;
      this._to.offline(true);
    } else if (status === 'connected' && this._lost) {
      this._lost = false;
      this._to.offline(false);
      this._attach(true);
    }
  }

  private _begin(): number {
    this._channel?.leave();
    this._channel = null;
    clearTimeout(this._slow);
    this._stage = 'asking';
    this._waits = false;
    return ++this._turn;
  }

  private _stand(state: PanelState): void {
    this._begin();
    this._stage = 'apart';
    this._to.stands(state);
  }

  /** Goes up with every attempt: what was awaited by an older one is dropped. */
  private _turn = 0;
  private _stage: Stage = 'apart';
  private _channel: Channel | null = null;
  private _known: Partial<IFound> = {};
  /** A cell ran since the last look. */
  private _ran = false;
  /** Nothing can be asked before the kernel is idle. */
  private _waits = false;
  private _slow: ReturnType<typeof setTimeout> | undefined;
  private _restarts = false;
  private _lost = false;
  /** A broadcast was followed already. */
  private _called = false;
  private _retried = false;
  private _unanswered = 0;
  /** The channel was opened before the kernel was asked what it has. */
  private _unasked = false;
}
