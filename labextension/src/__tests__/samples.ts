import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { IHello, ILive, IState } from '../tokens';

/** One of the messages that the Python tests read too. */
export function sample(name: string): Record<string, unknown> {
  const path = join(process.cwd(), '..', 'tests', 'data', 'sidebar', `${name}.json`);
  return JSON.parse(readFileSync(path, 'utf-8')) as Record<string, unknown>;
}

/** The same, as the type that it is. */
export const hello = (): IHello => sample('hello') as unknown as IHello;
export const busyHello = (): IHello => sample('hello_busy') as unknown as IHello;
export const live = (): ILive => sample('live') as unknown as ILive;
export const liveEnd = (): ILive => sample('live_end') as unknown as ILive;
export const state = (): IState => sample('state') as unknown as IState;
