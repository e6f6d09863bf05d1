import type { Ending, IPast } from './states';
import type { IState } from './tokens';

const MOST_KERNELS = 30;

/** What one kernel said last, and what it said before its life ended. */
export class Memory {
  present: IState | null = null;
  past: IPast | null = null;

  /** The present is past from now on. */
  retire(how: Ending): void {
    if (this.present !== null) {
      this.past = { state: this.present, how };
      this.present = null;
    } else if (this.past?.how === 'restarted' && how === 'died') {
      this.past.how = how; // JupyterLab tells of a crash as of a restart first
    }
  }
}

/** What the kernels said that this page followed last. */
export class Memories {
  /** The memory of a kernel; the oldest are forgotten. */
  recall(kernelId: string): Memory {
    const found = this._all.get(kernelId) ?? new Memory();
    this._all.delete(kernelId);
    this._all.set(kernelId, found);
    if (this._all.size > MOST_KERNELS) {
      this._all.delete(this._all.keys().next().value as string);
    }
    return found;
  }

  private _all = new Map<string, Memory>();
}
