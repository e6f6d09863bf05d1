import type { Kernel, KernelMessage } from '@jupyterlab/services';

/** What a silent look into a Python kernel found. */
export interface IFound {
  /** The kernel has the channel's target. */
  target: boolean;
  /** The extension is loaded, be it one of before there was a channel. */
  loaded: boolean;
  /** nbmem can be imported. */
  installed: boolean;
  /** torch can be imported. */
  torch: boolean;
}

const WIDGETS = 'jupyter.widget';
const SHELL = "__import__('IPython').get_ipython()";

function findable(name: string): string {
  return `__import__('importlib.util').util.find_spec('${name}') is not None`;
}

const QUESTIONS: Record<keyof IFound, string> = {
  target: `'nbmem' in ${SHELL}.kernel.comm_manager.targets`,
  loaded: `'nbmem' in ${SHELL}.extension_manager.loaded`,
  installed: findable('nbmem'),
  torch: findable('torch')
};

/**
 * Asks an idle kernel; what was found once is not asked again.
 *
 * Nothing of it is recorded or shown: no history, no output, no variable. It says null where the
 * kernel gave no answer.
 */
export async function probe(
  kernel: Kernel.IKernelConnection,
  known: Partial<IFound>
): Promise<IFound | null> {
  const asked = Object.fromEntries(
    Object.entries(QUESTIONS).filter(([name]) => !known[name as keyof IFound])
  );
  const reply = await kernel.requestExecute({
    code: '',
    silent: true,
    store_history: false,
    allow_stdin: false,
    stop_on_error: false,
    user_expressions: asked
  }).done;
  if (reply.content.status !== 'ok') {
    return null;
  }
  const answers = reply.content.user_expressions as Record<string, unknown>;
  const found = (name: keyof IFound) => known[name] === true || isTrue(answers?.[name]);
  return {
    target: found('target'),
    loaded: found('loaded'),
    installed: found('installed'),
    torch: found('torch')
  };
}

/** Says whether a kernel has a widget of this id; it answers when its cell has ended. */
export async function hasWidget(kernel: Kernel.IKernelConnection, id: string): Promise<boolean> {
  const reply = await kernel.requestCommInfo({ target_name: WIDGETS });
  return reply.content.status !== 'ok' || id in reply.content.comms;
}

/** Why `%load_ext nbmem` failed. */
export type LoadFailure =
  | { kind: 'no-package' }
  | { kind: 'no-torch'; sentence: string }
  | { kind: 'other'; sentence: string };

/** Runs `%load_ext nbmem`, outside the history; null where it worked. */
export async function loadExtension(
  kernel: Kernel.IKernelConnection
): Promise<LoadFailure | null> {
  const reply = await kernel.requestExecute({
    code: '%load_ext nbmem',
    silent: false,
    store_history: false,
    allow_stdin: false,
    stop_on_error: false
  }).done;
  return reply.content.status === 'ok'
    ? null
    : judge(reply.content as Partial<KernelMessage.IReplyErrorContent>);
}

function judge(error: Partial<KernelMessage.IReplyErrorContent>): LoadFailure {
  const name = error.ename ?? '';
  const sentence = error.evalue ?? '';
  if (name === 'ModuleNotFoundError' && sentence.includes("'nbmem'")) {
    return { kind: 'no-package' };
  }
  return name === 'UsageError'
    ? { kind: 'no-torch', sentence }
    : { kind: 'other', sentence: [name, sentence].filter(Boolean).join(': ') };
}

function isTrue(answer: unknown): boolean {
  const data = (answer as { data?: Record<string, unknown> } | undefined)?.data;
  return data?.['text/plain'] === 'True';
}
