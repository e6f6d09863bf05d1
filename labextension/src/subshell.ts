import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { JSONObject, UUID } from '@lumino/coreutils';

/** What JupyterLab 4.4 and newer have beyond 4.2. */
interface INewerKernel {
  supportsSubshells?: boolean;
}
interface INewerComm {
  subshellStarted?: Promise<void>;
  commsOverSubshells?: string;
}

/** What a kernel says of itself, as far as the channel needs it. */
export interface IAbout {
  language: string;
  subshells: boolean;
}

/** What a kernel that has subshells says among its features. */
export const SUBSHELLS = 'kernel subshells';

/** Whether a comm of this connection may be answered while a cell runs. */
export function hasSubshells(kernel: Kernel.IKernelConnection): boolean {
  return (kernel as INewerKernel).supportsSubshells === true;
}

/** Waits until a comm has its subshell; at once where it will have none. */
export async function subshellOf(
  kernel: Kernel.IKernelConnection,
  comm: Kernel.IComm,
  patience: number
): Promise<boolean> {
  const newer = comm as INewerComm;
  const none = newer.commsOverSubshells === undefined || newer.commsOverSubshells === 'disabled';
  if (!hasSubshells(kernel) || none || newer.subshellStarted === undefined) {
    return false;
  }
  const started = newer.subshellStarted.then(
    () => true,
    () => false
  );
  return (await within(started, patience)) ?? false;
}

/**
 * Asks a kernel about itself over the control channel, which answers while a cell runs.
 *
 * A page that was opened in the middle of a cell knows nothing of the kernel until the cell ends.
 */
export async function askControl(kernel: Kernel.IKernelConnection): Promise<IAbout | null> {
  const content = await control(kernel, 'kernel_info_request');
  const language = (content?.language_info as JSONObject | undefined)?.name;
  const features = content?.supported_features;
  return typeof language === 'string'
    ? { language, subshells: Array.isArray(features) && features.includes(SUBSHELLS) }
    : null;
}

/** Opens a comm over a subshell made for it; says how to end that subshell, null on failure. */
export async function openOverControl(
  kernel: Kernel.IKernelConnection,
  comm: Kernel.IComm,
  data: JSONObject
): Promise<(() => void) | null> {
  const subshell = (await control(kernel, 'create_subshell_request'))?.subshell_id;
  if (typeof subshell !== 'string' || comm.isDisposed) {
    return null;
  }
  const content = { comm_id: comm.commId, target_name: comm.targetName, data };
  const message = compose(kernel, 'shell', 'comm_open', content, subshell);
  kernel.sendShellMessage(message as unknown as KernelMessage.IShellMessage, false, true);
  return () => void control(kernel, 'delete_subshell_request', { subshell_id: subshell });
}

/** What comes of a promise, or null when it takes longer than so many milliseconds or fails. */
export function within<T>(promise: Promise<T>, patience: number): Promise<T | null> {
  return new Promise(resolve => {
    const timer = setTimeout(() => resolve(null), patience);
    const settle = (value: T | null) => {
      clearTimeout(timer);
      resolve(value);
    };
    promise.then(settle, () => settle(null));
  });
}

async function control(
  kernel: Kernel.IKernelConnection,
  type: string,
  content: JSONObject = {}
): Promise<JSONObject | null> {
  if (kernel.isDisposed || kernel.status === 'dead') {
    return null;
  }
  const message = compose(kernel, 'control', type, content);
  const sent = async () =>
    kernel.sendControlMessage(message as unknown as KernelMessage.IControlMessage, true, true).done;
  const reply = await within(sent(), CONTROL_PATIENCE); // sending throws while not connected
  return (reply?.content ?? null) as JSONObject | null;
}

const CONTROL_PATIENCE = 5_000;

function compose(
  kernel: Kernel.IKernelConnection,
  channel: 'shell' | 'control',
  type: string,
  content: JSONObject,
  subshell?: string
): JSONObject {
  const header: JSONObject = {
    msg_id: UUID.uuid4(),
    msg_type: type,
    session: kernel.clientId,
    username: kernel.username,
    date: new Date().toISOString(),
    version: '5.3',
    ...(subshell === undefined ? {} : { subshell_id: subshell })
  };
  return { header, parent_header: {}, metadata: {}, content, channel, buffers: [] };
}
