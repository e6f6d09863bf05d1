import { FromKernel, ICellPlace, IMark, PROTOCOL } from './tokens';

/** A message as it was sent, one of another protocol, or what is wrong with it. */
export type Reading =
  | { kind: 'message'; message: FromKernel }
  | { kind: 'mismatch'; theirs: number; version: string }
  | { kind: 'malformed'; what: string };

/** More characters than any copy of a panel has. */
export const LONGEST_COPY = 2_000_000;
const LONGEST_TEXT = 2_000;
const MOST_MARKS = 10_000;

type Fields = Record<string, unknown>;
type Check = (value: unknown) => boolean;

const text: Check = value => typeof value === 'string' && value.length <= LONGEST_TEXT;
const copy: Check = value => typeof value === 'string' && value.length <= LONGEST_COPY;
const flag: Check = value => typeof value === 'boolean';
const figure: Check = value => typeof value === 'number' && Number.isFinite(value);
const orNull =
  (check: Check): Check =>
  value =>
    value === null || check(value);
const place: Check = value =>
  isFields(value) &&
  orNull(text)(value.cell_id) &&
  orNull(figure)(value.number) &&
  (value.serial === undefined || figure(value.serial));
const mark: Check = value =>
  isFields(value) &&
  orNull(text)(value.cell_id) &&
  orNull(figure)(value.number) &&
  figure(value.serial) &&
  [value.peak, value.stayed, value.tip].every(text) &&
  orNull(figure)(value.share);
const marks: Check = value =>
  Array.isArray(value) && value.length <= MOST_MARKS && value.every(mark);
const nested =
  (type: string): Check =>
  value =>
    isFields(value) && value.type === type && wrongField(value) === null;

const FIELDS: Record<FromKernel['type'], Record<string, Check>> = {
  live: {
    running: flag,
    cell: orNull(place),
    title: text,
    text,
    status: text,
    share: orNull(figure),
    taken_at: figure
  },
  state: {
    device: text,
    status: text,
    share: orNull(figure),
    tip: text,
    hint: text,
    costliest: orNull(place),
    copy,
    taken_at: figure
  },
  marks: { whole: flag, marks },
  hello: {
    version: text,
    model_id: orNull(text),
    waits: text,
    marks,
    state: orNull(nested('state')),
    live: orNull(nested('live'))
  },
  panel: { model_id: orNull(text), trouble: text },
  bye: { sentence: text },
  trouble: { sentence: text }
};

/**
 * Reads what came over the channel; nothing of it is trusted.
 *
 * The protocol is looked at first: a message of another one may have any fields.
 */
export function readMessage(data: unknown): Reading {
  if (!isFields(data)) {
    return { kind: 'malformed', what: 'no fields' };
  }
  if (!figure(data.protocol)) {
    return { kind: 'malformed', what: 'protocol' };
  }
  if (data.protocol !== PROTOCOL) {
    const version = text(data.version) ? (data.version as string) : '';
    return { kind: 'mismatch', theirs: data.protocol as number, version };
  }
  if (typeof data.type !== 'string' || !Object.keys(FIELDS).includes(data.type)) {
    return { kind: 'malformed', what: 'type' };
  }
  const wrong = wrongField(data);
  return wrong === null
    ? { kind: 'message', message: data as unknown as FromKernel }
    : { kind: 'malformed', what: `${data.type}.${wrong}` };
}

/** The key of a mark: its cell's id, or `[7]` where the kernel was told none. */
export function markKey(found: IMark | ICellPlace): string {
  return found.cell_id ?? `[${found.number ?? '?'}]`;
}

function wrongField(data: Fields): string | null {
  const checks = FIELDS[data.type as FromKernel['type']];
  return Object.keys(checks).find(name => !checks[name](data[name])) ?? null;
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
