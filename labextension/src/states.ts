import type { IState } from './tokens';

/** Where the page stands with the kernel that it follows; the panel has a sentence for each. */
export type PanelState =
  | { kind: 'no-notebook' }
  | { kind: 'no-kernel' }
  | { kind: 'starting'; why: 'starting' | 'restarting' | 'asking' }
  | { kind: 'other-language'; language: string }
  /** `failed`: why the last attempt to load failed; empty before one. */
  | { kind: 'not-loaded'; loading: boolean; failed: string }
  | { kind: 'no-package' }
  /** `sentence` of the kernel's nbmem; empty where torch was only looked for. */
  | { kind: 'no-torch'; sentence: string }
  /** `sentence` of the kernel's nbmem; empty where it could not be asked yet. */
  | { kind: 'waiting'; sentence: string }
  /** The comms of this kernel belong to another document that is not open here. */
  | { kind: 'no-comms' }
  | { kind: 'no-widgets' }
  | { kind: 'mismatch'; older: 'page' | 'kernel'; version: string }
  | { kind: 'ready'; modelId: string }
  /** The kernel is dead; what it last showed is `MemoryModel.past`. */
  | { kind: 'past' };

/** What a kernel last said before it ended. */
export interface IPast {
  state: IState;
  how: Ending;
}

/** `unseen`: it ended, or nbmem left it, while another notebook was looked at. */
export type Ending = 'died' | 'restarted' | 'shut-down' | 'unloaded' | 'unseen';

/** A sentence above the panel that does not replace it. */
export type Notice =
  | { kind: 'trouble'; sentence: string }
  | { kind: 'malformed'; what: string }
  | { kind: 'offline' };
