import type { Kernel } from '@jupyterlab/services';
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

/** What the model follows: a kernel's connection, and what can show its widgets. */
export interface IFollowedKernel {
  /** The document's session; it outlives its kernels. */
  owner: object;
  kernel: Kernel.IKernelConnection | null;
  /** Why there is no kernel: none was chosen, or it is about to come. */
  starting: boolean;
  /** Whether the page has what draws widgets. */
  hasWidgets: boolean;
}

/** Makes the one that talks to a kernel. */
export type ConnectorFactory = (kernel: Kernel.IKernelConnection, to: IListener) => IConnector;
