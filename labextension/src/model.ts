import { ISignal, Signal } from '@lumino/signaling';
import type { ConnectorFactory, IConnector, IFollowedKernel, IListener } from './listener';
import { Memories, Memory } from './memories';
import type { Ending, IPast, Notice, PanelState } from './states';
import type { FromKernel, IHello, ILive, IMark, IState, ToKernel } from './tokens';
import { markKey } from './validate';

/** What one kernel said, for badges, the status bar, alerts and jumps. */
export interface IMemoryModel {
  readonly state: PanelState;
  readonly kernelId: string | null;
  /** While a cell runs; null otherwise. */
  readonly live: ILive | null;
  /** What came last of a cell, be it running or over. */
  readonly lastLive?: ILive | null;
  /** The last of this kernel's life; null where it has said none. */
  readonly present: IState | null;
  /** By `cell_id`, or by `[7]` where the kernel was told no id. */
  readonly marks: ReadonlyMap<string, IMark>;
  /** State, live or present. */
  readonly changed: ISignal<IMemoryModel, void>;
  readonly marksChanged: ISignal<IMemoryModel, void>;
  send(message: ToKernel): void;
}

/** Seconds: a reading this much older than the last is late; an older one is of a clock set back. */
const OVERTAKEN = 5;

/**
 * What the page knows of the kernel of the notebook that is looked at, and nothing of another's.
 *
 * It knows neither DOM nor kernels: the connector tells it what was heard.
 */
export class MemoryModel implements IMemoryModel, IListener {
  constructor(private _connect: ConnectorFactory, private _now: () => number = Date.now) {}

  state: PanelState = { kind: 'no-notebook' };
  kernelId: string | null = null;
  live: ILive | null = null;
  /** The last reading, also after its cell ended. */
  lastLive: ILive | null = null;
  /** Milliseconds, by the page's clock, when `lastLive` came. */
  liveAt = 0;
  past: IPast | null = null;
  notice: Notice | null = null;
  marks: ReadonlyMap<string, IMark> = new Map();

  get present(): IState | null {
    return this._memory?.present ?? null;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get marksChanged(): ISignal<this, void> {
    return this._marksChanged;
  }

  /** Follows another kernel from now on, or none. */
  follow(next: IFollowedKernel | null): void {
    const before = this._followed;
    this._followed = next;
    if (next !== null && next.kernel !== null && next.kernel === before?.kernel) {
      this._weighWidgets();
      return;
    }
    this._connector?.dispose();
    this._connector = null;
    this._forget();
    if (next === null || next.kernel === null) {
      this._followNone(next);
      return;
    }
    this.kernelId = next.kernel.id;
    this._lastKernels.set(next.owner, next.kernel.id);
    this._memory = this._memories.recall(next.kernel.id);
    this.past = this._memory.past;
    this.state = { kind: 'starting', why: 'asking' };
    this._tell();
    this._connector = this._connect(next.kernel, this);
    this._connector.attach();
  }

  send(message: ToKernel): void {
    this._connector?.send(message);
  }

  /** Loads nbmem in the kernel. */
  load(): void {
    this._connector?.load();
  }

  /** Asks the kernel anew: from the start where there is no channel yet. */
  refresh(): void {
    if (['ready', 'waiting', 'no-widgets'].includes(this.state.kind)) {
      this.send({ type: 'refresh' });
    } else {
      this._connector?.attach();
    }
  }

  /** Asks the kernel for another panel in the place of one that the page does not draw. */
  rebuild(): void {
    this.send({ type: 'rebuild' });
  }

  /**
   * The page has drawn the panel, or cannot: then the kernel is asked for another one, once. If
   * that is lost, too, it is not the panel's fault.
   */
  settled(how: 'drawn' | 'lost'): void {
    if (how === 'lost' && !this._rebuilt) {
      this.rebuild();
    }
    this._rebuilt = how === 'lost';
  }

  /** Takes the notice away. */
  dismiss(): void {
    this.notice = null;
    this._tell();
  }

  /** The connector: where it stands before the kernel has answered. */
  stands(state: PanelState): void {
    this.state = state;
    if (state.kind !== 'waiting') {
      this._endLive();
      this.notice = null;
    }
    if (['not-loaded', 'no-package', 'no-torch', 'no-comms', 'mismatch'].includes(state.kind)) {
      this._retire('unseen');
      this._clearMarks();
    }
    this._tell();
  }

  /** The connector: a message that was checked. */
  heard(message: FromKernel): void {
    switch (message.type) {
      case 'hello':
        this._greet(message);
        break;
      case 'panel':
        this.notice = this.notice?.kind === 'trouble' ? null : this.notice;
        this._dock(message.model_id, message.trouble);
        break;
      case 'live':
        this._takeLive(message);
        break;
      case 'state':
        this._remember(message);
        break;
      case 'marks':
        this._takeMarks(message.marks, message.whole);
        break;
      case 'bye':
        this._retire('unloaded');
        this._clearMarks();
        break;
      case 'trouble':
        this.notice = { kind: 'trouble', sentence: message.sentence };
        break;
    }
    this._tell();
  }

  /** The connector: a message that cannot be read. */
  stumbled(what: string): void {
    this.notice = { kind: 'malformed', what };
    this._tell();
  }

  /** The connector: the connection is lost, or is there again. */
  offline(lost: boolean): void {
    if (lost) {
      this.notice = { kind: 'offline' };
      this._endLive();
    } else if (this.notice?.kind === 'offline') {
      this.notice = null;
    }
    this._tell();
  }

  /** The connector: the kernel's process is gone; `dead`: for good. */
  ended(how: Ending, dead: boolean): void {
    this._retire(how);
    this._endLive();
    this._clearMarks();
    this.state = dead ? { kind: 'past' } : { kind: 'starting', why: 'restarting' };
    this._tell();
  }

  /** Ends everything. */
  dispose(): void {
    this._connector?.dispose();
    this._connector = null;
    Signal.clearData(this);
  }

  private _followNone(next: IFollowedKernel | null): void {
    this.kernelId = null;
    this.state =
      next === null
        ? { kind: 'no-notebook' }
        : next.starting
          ? { kind: 'starting', why: 'starting' }
          : { kind: 'no-kernel' };
    const last = next === null ? undefined : this._lastKernels.get(next.owner);
    if (last !== undefined && this.state.kind === 'no-kernel') {
      this._memory = this._memories.recall(last);
      this._retire('shut-down');
    }
    this._tell();
    this._marksChanged.emit();
  }

  private _greet(hello: IHello): void {
    this.notice = null;
    this._takeMarks(hello.marks, true);
    if (hello.state !== null) {
      this._remember(hello.state);
    }
    if (hello.live !== null) {
      this._takeLive(hello.live);
    }
    this._dock(hello.model_id, hello.waits);
  }

  private _dock(modelId: string | null, why: string): void {
    const draws = this._followed?.hasWidgets;
    if (modelId === null && draws) {
      this.state = { kind: 'waiting', sentence: why };
      return;
    }
    this.past = null;
    if (this._memory !== null) {
      this._memory.past = null;
    }
    this._modelId = modelId;
    this.state = modelId !== null && draws ? { kind: 'ready', modelId } : { kind: 'no-widgets' };
  }

  private _weighWidgets(): void {
    const has = this._followed?.hasWidgets;
    if (this.state.kind !== 'no-widgets' || !has) {
      return;
    }
    if (this._modelId === null) {
      this._connector?.attach(); // the kernel builds a panel for pages that draw it
    } else {
      this._dock(this._modelId, '');
      this._tell();
    }
  }

  private _takeLive(live: ILive): void {
    const late = (this.lastLive?.taken_at ?? 0) - live.taken_at;
    if (late > 0 && late < OVERTAKEN) {
      return;
    }
    this.lastLive = live;
    this.live = live.running ? live : null;
    this.liveAt = this._now();
  }

  private _remember(state: IState): void {
    if (this._memory !== null) {
      this._memory.present = state;
    }
  }

  private _takeMarks(marks: IMark[], whole: boolean): void {
    const all = whole ? new Map<string, IMark>() : new Map(this.marks);
    for (const mark of marks) {
      all.set(markKey(mark), mark);
    }
    this.marks = all;
    this._marksChanged.emit();
  }

  private _clearMarks(): void {
    if (this.marks.size > 0) {
      this.marks = new Map();
      this._marksChanged.emit();
    }
  }

  private _retire(how: Ending): void {
    this._memory?.retire(how);
    this.past = this._memory?.past ?? null;
  }

  private _endLive(): void {
    this.live = null;
    this.lastLive = null;
  }

  private _forget(): void {
    this.live = this.lastLive = this.past = this.notice = this._memory = this._modelId = null;
    this.marks = new Map();
    this._rebuilt = false;
  }

  private _tell(): void {
    this._changed.emit();
  }

  private _followed: IFollowedKernel | null = null;
  private _connector: IConnector | null = null;
  private _memory: Memory | null = null;
  private _modelId: string | null = null;
  /** Another panel was asked for, and none was drawn since. */
  private _rebuilt = false;
  private _memories = new Memories();
  private _lastKernels = new WeakMap<object, string>();
  private _changed = new Signal<this, void>(this);
  private _marksChanged = new Signal<this, void>(this);
}
