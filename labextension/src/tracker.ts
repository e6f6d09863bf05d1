import type { ISessionContext } from '@jupyterlab/apputils';
import type { ConsolePanel, IConsoleTracker } from '@jupyterlab/console';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { Kernel } from '@jupyterlab/services';
import { ISignal, Signal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';
import type { IFollowedKernel } from './listener';
import { WIDGET_VIEW } from './tokens';

/** A notebook or a console that has a kernel, or may get one. */
export interface IFollowed {
  widget: Widget;
  context: ISessionContext;
  rendermime: IRenderMimeRegistry;
}

/**
 * The notebook or console that was looked at last.
 *
 * It stays when the sidebar, a terminal or the launcher gets the focus.
 */
export class Follower {
  constructor(
    private _notebooks: INotebookTracker | null,
    private _consoles: IConsoleTracker | null
  ) {
    for (const tracker of this._trackers) {
      tracker.currentChanged.connect(this._choose, this);
      tracker.widgetAdded.connect(this._onAdded, this);
    }
    this._choose();
  }

  /** Null where no notebook and no console is open. */
  get current(): IFollowed | null {
    return this._current;
  }

  /** Its widget; null where there is none. */
  get widget(): Widget | null {
    return this._current?.widget ?? null;
  }

  /** Another notebook, another kernel, or a kernel that came or went. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** What the header shows: the name or the kernel's status. */
  get retold(): ISignal<this, void> {
    return this._retold;
  }

  /** What the model follows. */
  get kernel(): IFollowedKernel | null {
    const current = this._current;
    if (current === null) {
      return null;
    }
    const carrier = this.carrier;
    const status = current.context.kernelDisplayStatus;
    return {
      owner: current.context,
      kernel: kernelOf(carrier ?? current),
      starting: ['starting', 'initializing', 'connecting', 'restarting'].includes(status),
      hasWidgets: (carrier ?? current).rendermime.mimeTypes.includes(WIDGET_VIEW)
    };
  }

  /**
   * Whose connection carries the comms of the current kernel.
   *
   * Of several documents on one kernel only the first has comms and widgets.
   */
  get carrier(): IFollowed | null {
    const current = this._current;
    const kernel = current === null ? null : kernelOf(current);
    if (kernel === null || kernel.handleComms) {
      return current;
    }
    const found = this._open().find(each => {
      const other = kernelOf(each);
      return other?.id === kernel.id && other.handleComms;
    });
    return found ?? null;
  }

  /** Ends following. */
  dispose(): void {
    this._leave();
    Signal.clearData(this);
  }

  private get _trackers(): (INotebookTracker | IConsoleTracker)[] {
    return [this._notebooks, this._consoles].filter(each => each !== null);
  }

  private _open(): IFollowed[] {
    const open: IFollowed[] = [];
    this._notebooks?.forEach(panel => open.push(ofNotebook(panel)));
    this._consoles?.forEach(panel => open.push(ofConsole(panel)));
    return open;
  }

  private _onAdded(_: unknown, widget: NotebookPanel | ConsolePanel): void {
    widget.disposed.connect(this._onClosed, this);
  }

  /** It may have carried the comms of the kernel that is followed. */
  private _onClosed(): void {
    this._choose();
    this._changed.emit();
  }

  /** Takes the tracker that changed last; the other one where that has nothing. */
  private _choose(sender?: unknown): void {
    const notebook = this._notebooks?.currentWidget ?? null;
    const console = this._consoles?.currentWidget ?? null;
    const first = sender !== undefined && sender === this._consoles;
    const wanted = [first ? console : notebook, this._current?.widget, notebook, console];
    const open = this._open();
    for (const widget of wanted) {
      const found = open.find(each => each.widget === widget && !each.widget.isDisposed);
      if (found !== undefined) {
        this._set(found);
        return;
      }
    }
    this._set(null);
  }

  private _set(next: IFollowed | null): void {
    if (next?.widget === this._current?.widget) {
      return;
    }
    this._leave();
    this._current = next;
    if (next !== null) {
      next.widget.title.changed.connect(this._retell, this);
      next.context.statusChanged.connect(this._retell, this);
      next.context.connectionStatusChanged.connect(this._retell, this);
      next.context.kernelChanged.connect(this._tell, this);
    }
    this._tell();
  }

  private _leave(): void {
    const last = this._current;
    this._current = null;
    if (last !== null && !last.widget.isDisposed) {
      last.widget.title.changed.disconnect(this._retell, this);
      last.context.statusChanged.disconnect(this._retell, this);
      last.context.connectionStatusChanged.disconnect(this._retell, this);
      last.context.kernelChanged.disconnect(this._tell, this);
    }
  }

  private _tell(): void {
    this._changed.emit();
    this._retold.emit();
  }

  private _retell(): void {
    const display = this._current?.context.kernelDisplayStatus;
    if (kernelOf(this._current) === null && display !== this._display) {
      this._changed.emit();
    }
    this._display = display;
    this._retold.emit();
  }

  private _current: IFollowed | null = null;
  private _display: string | undefined;
  private _changed = new Signal<this, void>(this);
  private _retold = new Signal<this, void>(this);
}

/** The connection to a document's kernel. */
export function kernelOf(followed: IFollowed | null): Kernel.IKernelConnection | null {
  const context = followed?.context;
  return context === undefined || context.isDisposed ? null : (context.session?.kernel ?? null);
}

function ofNotebook(panel: NotebookPanel): IFollowed {
  return { widget: panel, context: panel.sessionContext, rendermime: panel.content.rendermime };
}

function ofConsole(panel: ConsolePanel): IFollowed {
  return { widget: panel, context: panel.sessionContext, rendermime: panel.console.rendermime };
}
