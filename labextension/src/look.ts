import type { Kernel } from '@jupyterlab/services';
import { IFound, probe } from './probe';
import { askControl, hasSubshells, IAbout, SUBSHELLS, within } from './subshell';

/** Milliseconds to wait: for what is known unasked, an idle kernel, a subshell, the first answer. */
export interface IPatience {
  info: number;
  answer: number;
  subshell: number;
  hello: number;
}

/** What a look into a kernel came to. */
export type Finding =
  /** It starts, or says nothing while a cell runs. */
  | { kind: 'mute' }
  | { kind: 'foreign'; language: string }
  | { kind: 'busy'; about: IAbout }
  /** `found` is null where its answer was none. */
  | { kind: 'answered'; found: IFound | null };

/** Looks into a kernel; what is `known` is not asked again. */
export async function lookInto(
  kernel: Kernel.IKernelConnection,
  known: Partial<IFound>,
  patience: IPatience
): Promise<Finding> {
  const about = await aboutOf(kernel, patience);
  if (about === null) {
    return { kind: 'mute' };
  }
  if (!/^i?python/i.test(about.language)) {
    return { kind: 'foreign', language: about.language };
  }
  if (kernel.status === 'busy') {
    return { kind: 'busy', about };
  }
  const answered = probe(kernel, known)
    .catch(() => null)
    .then(found => ({ kind: 'answered' as const, found }));
  return (await within(answered, patience.answer)) ?? { kind: 'busy', about };
}

/** Says what the kernel is, by the control channel where a cell keeps it from answering. */
async function aboutOf(
  kernel: Kernel.IKernelConnection,
  patience: IPatience
): Promise<IAbout | null> {
  const info = await within(kernel.info, patience.info);
  if (info !== null) {
    const { supported_features: features = [] } = info as { supported_features?: string[] };
    const subshells = hasSubshells(kernel) || features.includes(SUBSHELLS);
    return { language: info.language_info.name, subshells };
  }
  return kernel.connectionStatus === 'connected' ? askControl(kernel).catch(() => null) : null;
}
