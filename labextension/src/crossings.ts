/** When a share passes a limit from below, told once: no clock, no page. */

/** A share has to fall this far below the limit before passing it again counts again. */
const FALL = 0.05;

/** Remembers which devices are above their limit. */
export class Crossings {
  /** `above`: keys that were told before. */
  constructor(above: Iterable<string> = []) {
    this._above = new Set(above);
  }

  /** The keys that were told and have not fallen since. */
  get above(): string[] {
    return [...this._above];
  }

  /**
   * Returns whether `share` of the device `key` is to be told: it is at or above `limit`, and was
   * not told since it last fell clearly below. A limit of 0 tells nothing; an unknown share
   * (null) changes nothing.
   */
  passes(key: string, share: number | null, limit: number): boolean {
    if (limit <= 0) {
      this._above.delete(key);
      return false;
    }
    if (share === null || !Number.isFinite(share)) {
      return false;
    }
    if (share >= limit) {
      const first = !this._above.has(key);
      this._above.add(key);
      return first;
    }
    if (share <= limit - FALL + 1e-9) {
      this._above.delete(key);
    }
    return false;
  }

  /** What was told of `old` was told of `key`: its name became known. */
  rename(old: string, key: string): void {
    if (this._above.delete(old)) {
      this._above.add(key);
    }
  }

  private _above: Set<string>;
}
