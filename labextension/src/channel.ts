import type { Kernel } from '@jupyterlab/services';
import type { JSONObject } from '@lumino/coreutils';
import { hasSubshells, openOverControl, subshellOf } from './subshell';
import { TARGET, ToKernel } from './tokens';

/** Who is told what comes over one comm. */
export interface IChannelListener {
  received(data: unknown): void;
  /** The kernel closed it: it has no such target, or nbmem was unloaded. */
  closed(): void;
}

/** One comm to a kernel's nbmem, from its opening to its end. */
export class Channel {
  constructor(
    private _kernel: Kernel.IKernelConnection,
    to: IChannelListener
  ) {
    this._comm = _kernel.createComm(TARGET);
    this._comm.onMsg = message => {
      if (!this._left) {
        to.received(message.content.data);
      }
    };
    this._comm.onClose = () => {
      if (!this._left) {
        to.closed();
      }
    };
  }

  /** Opens it; `busy`: while a cell runs, when only a subshell can answer. */
  async open(opening: JSONObject, busy: boolean, patience: number): Promise<void> {
    if (busy && !hasSubshells(this._kernel)) {
      this._opened = true;
      this._endSubshell = await openOverControl(this._kernel, this._comm, opening);
      return;
    }
    await subshellOf(this._kernel, this._comm, patience);
    if (!this._left && !this._comm.isDisposed) {
      this._opened = true;
      this._comm.open(opening);
    }
  }

  /** The kernel has answered: what was made for the opening alone may go. */
  settle(): void {
    this._endSubshell?.();
    this._endSubshell = null;
  }

  send(message: ToKernel): void {
    if (!this._left && !this._comm.isDisposed) {
      this._comm.send(message);
    }
  }

  /** Ends it; the kernel is told where it knows of it. */
  leave(): void {
    this._left = true;
    this.settle();
    if (this._comm.isDisposed) {
      return;
    }
    if (this._opened && !this._kernel.isDisposed && this._kernel.status !== 'dead') {
      this._comm.close();
    } else {
      this._comm.dispose();
    }
  }

  private _comm: Kernel.IComm;
  private _left = false;
  private _opened = false;
  private _endSubshell: (() => void) | null = null;
}
