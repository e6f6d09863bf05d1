/**
 * Where a cell is, without a page: what was asked for, checked, and found among a notebook's cells.
 */
import type { ICellPlace } from './tokens';

/** What finding needs to know of a cell. */
export interface ICellLook {
  readonly id: string;
  readonly type: string;
  /** The n of `[n]`; null where the cell did not run. */
  readonly executionCount?: number | null;
}

/** The longest cell id that is taken for one; nbformat allows 64 characters. */
const LONGEST_ID = 256;

function cellId(value: unknown): string | null {
  const fits = typeof value === 'string' && value !== '' && value.length <= LONGEST_ID;
  return fits ? value : null;
}

function count(value: unknown): number | null {
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : null;
}

/**
 * Returns the place that an event's `detail` asks for, or null where it is none. Any script of the
 * page can send such an event, so nothing of it is believed.
 */
export function readPlace(detail: unknown): ICellPlace | null {
  if (typeof detail !== 'object' || detail === null) {
    return null;
  }
  const { cell_id, number } = detail as Record<string, unknown>;
  const place = { cell_id: cellId(cell_id), number: count(number) };
  return place.cell_id === null && place.number === null ? null : place;
}

/** Returns the place of an element with `data-cell-id` or `data-number`, or null. */
export function readDataset(dataset: Record<string, string | undefined>): ICellPlace | null {
  const number = /^\d{1,9}$/.test(dataset.number ?? '') ? Number(dataset.number) : null;
  return readPlace({ cell_id: dataset.cellId, number });
}

/**
 * Returns the index of a cell, or -1. An id that no cell has stays unfound, since another cell may
 * have got the number; with `passing` ids (notebooks before format 4.5 get new ones each time they
 * are opened) the number is asked too.
 */
export function findCell(
  cells: Iterable<ICellLook>,
  place: ICellPlace,
  passing = false
): number {
  let numbered = -1;
  let index = 0;
  for (const cell of cells) {
    if (place.cell_id !== null && cell.id === place.cell_id) {
      return index;
    }
    const same = cell.type === 'code' && cell.executionCount === place.number;
    if (same && place.number !== null && numbered < 0) {
      numbered = index;
    }
    index += 1;
  }
  return place.cell_id === null || passing ? numbered : -1;
}
