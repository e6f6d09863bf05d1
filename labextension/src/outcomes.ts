import type { IFound, LoadFailure } from './probe';
import type { PanelState } from './states';
import { PROTOCOL } from './tokens';

/** A kernel that could have nbmem. */
export const NOT_LOADED: PanelState = { kind: 'not-loaded', loading: false, failed: '' };

/** What a kernel that ended while it was loading leaves. */
export function noReply(): LoadFailure {
  return { kind: 'other', sentence: '' };
}

/** Where a kernel without the channel stands: what it lacks. */
export function missing(found: IFound | null): PanelState {
  if (found === null) {
    return NOT_LOADED;
  }
  if (found.loaded) {
    return { kind: 'mismatch', older: 'kernel', version: '' }; // of before there was a channel
  }
  if (!found.installed) {
    return { kind: 'no-package' };
  }
  return found.torch ? NOT_LOADED : { kind: 'no-torch', sentence: '' };
}

/** Where a kernel stands after a failed load. */
export function failed(failure: LoadFailure): PanelState {
  return failure.kind === 'other'
    ? { kind: 'not-loaded', loading: false, failed: failure.sentence }
    : failure;
}

/** Which side is to be updated where the two speak different protocols. */
export function mismatch(theirs: number, version: string): PanelState {
  return { kind: 'mismatch', older: theirs > PROTOCOL ? 'page' : 'kernel', version };
}
