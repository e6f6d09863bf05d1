import assert from 'node:assert/strict';
import test from 'node:test';

import { findCell, readDataset, readPlace } from '../places';

const CELLS = [
  { id: 'title', type: 'markdown' },
  { id: 'load', type: 'code', executionCount: 3 },
  { id: 'train', type: 'code', executionCount: 7 },
  { id: 'fresh', type: 'code', executionCount: null },
  { id: 'stale', type: 'code', executionCount: 7 }
];

const place = (cell_id: string | null, number: number | null) => ({ cell_id, number });

test('a cell is found by its id, whatever its number is now', () => {
  assert.equal(findCell(CELLS, place('train', 5)), 2);
  assert.equal(findCell(CELLS, place('title', null)), 0);
  assert.equal(findCell(CELLS, place('stale', 7)), 4);
});

test('without an id the first code cell with the number is taken', () => {
  assert.equal(findCell(CELLS, place(null, 7)), 2);
  assert.equal(findCell(CELLS, place(null, 8)), -1);
});

test('a cell that did not run is not found by a missing number', () => {
  assert.equal(findCell(CELLS, place(null, null)), -1);
});

test('a deleted cell is not mistaken for another one with its number', () => {
  assert.equal(findCell(CELLS, place('deleted', 7)), -1);
});

test('in a file of a format without ids the number is asked where the id is gone', () => {
  assert.equal(findCell(CELLS, place('of-the-last-opening', 3), true), 1);
  assert.equal(findCell(CELLS, place('stale', 3), true), 4);
});

test('an event tells an id, a number or both', () => {
  assert.deepEqual(readPlace({ cell_id: 'c7', number: 7, serial: 5 }), place('c7', 7));
  assert.deepEqual(readPlace({ cell_id: null, number: 7 }), place(null, 7));
  assert.deepEqual(readPlace({ cell_id: 'c7' }), place('c7', null));
});

test('an event that tells no place is ignored', () => {
  const nothing = [undefined, null, 7, 'c7', [], {}, { cell_id: '', number: 0 }];
  const wrong = [
    { cell_id: 7, number: '7' },
    { cell_id: { toString: () => 'c7' }, number: NaN },
    { cell_id: 'x'.repeat(257), number: 1.5 },
    { cell_id: ['c7'], number: Infinity },
    { number: -7 }
  ];
  for (const detail of [...nothing, ...wrong]) {
    assert.equal(readPlace(detail), null, JSON.stringify(detail));
  }
});

test('an id with quotes and HTML is a text like any other', () => {
  const hostile = `"]<img src=x onerror=alert(1)>'`;
  assert.deepEqual(readPlace({ cell_id: hostile, number: null }), place(hostile, null));
  assert.equal(findCell(CELLS, place(hostile, null)), -1);
  assert.equal(findCell([...CELLS, { id: hostile, type: 'code' }], place(hostile, null)), 5);
});

test('an element tells its place in data attributes', () => {
  assert.deepEqual(readDataset({ cellId: 'c7', number: '7' }), place('c7', 7));
  assert.deepEqual(readDataset({ number: '12' }), place(null, 12));
  assert.deepEqual(readDataset({ cellId: 'c7', number: '7; drop' }), place('c7', null));
});

test('an element without them is no jump', () => {
  for (const number of [undefined, '', '0', '-1', '1e3', '9'.repeat(30)]) {
    assert.equal(readDataset({ number }), null, number);
  }
});
