import type { Ending, PanelState } from './states';
import type { FromKernel, ToKernel } from './tokens';

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
