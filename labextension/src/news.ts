import type { KernelMessage } from '@jupyterlab/services';
import { BROADCAST } from './tokens';

/** What the connector cares for among all that a kernel publishes. */
export type News =
  | { kind: 'broadcast'; data: unknown }
  /** A cell begins. */
  | { kind: 'input' }
  /** An execution ended, be it a cell or a silent one. */
  | { kind: 'ended' };

/** Reads a published message; null for those of others. */
export function readNews(message: KernelMessage.IIOPubMessage): News | null {
  const content = message.content as { comm_id?: string; data?: unknown; execution_state?: string };
  const parent = (message.parent_header as { msg_type?: string }).msg_type;
  switch (message.header.msg_type as string) {
    case 'comm_msg':
      return content.comm_id === BROADCAST ? { kind: 'broadcast', data: content.data } : null;
    case 'execute_input':
      return { kind: 'input' };
    case 'status':
      return content.execution_state === 'idle' && parent === 'execute_request'
        ? { kind: 'ended' }
        : null;
    default:
      return null;
  }
}
