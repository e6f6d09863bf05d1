import assert from 'node:assert/strict';
import test from 'node:test';

import { Crossings } from '../crossings';

const told = (crossings: Crossings, shares: (number | null)[], limit = 0.9) =>
  shares.map(share => crossings.passes('k cuda:0', share, limit));

test('passing the limit is told once while the device stays above', () => {
  assert.deepEqual(told(new Crossings(), [0.5, 0.89, 0.9, 0.95, 0.93]), [
    false,
    false,
    true,
    false,
    false
  ]);
});

test('a device that is above when it is first seen is told', () => {
  assert.deepEqual(told(new Crossings(), [0.97]), [true]);
});

test('wavering about the limit is not told again', () => {
  assert.deepEqual(told(new Crossings(), [0.91, 0.89, 0.91, 0.86, 0.92]), [
    true,
    false,
    false,
    false,
    false
  ]);
});

test('after a fall of five points passing is told again', () => {
  assert.deepEqual(told(new Crossings(), [0.91, 0.85, 0.9]), [true, false, true]);
});

test('an unknown share is neither a fall nor a passing', () => {
  assert.deepEqual(told(new Crossings(), [null, 0.91, null, NaN, 0.95]), [
    false,
    true,
    false,
    false,
    false
  ]);
});

test('a limit of 0 tells nothing', () => {
  assert.deepEqual(told(new Crossings(), [0.5, 1], 0), [false, false]);
});

test('a lower limit counts at once', () => {
  const crossings = new Crossings();
  assert.deepEqual(told(crossings, [0.75], 0.9), [false]);
  assert.deepEqual(told(crossings, [0.75], 0.7), [true]);
});

test('each device of each kernel is told by itself', () => {
  const crossings = new Crossings();
  assert.equal(crossings.passes('k cuda:0', 0.95, 0.9), true);
  assert.equal(crossings.passes('k cuda:1', 0.95, 0.9), true);
  assert.equal(crossings.passes('other cuda:0', 0.95, 0.9), true);
});

test('a reloaded page does not repeat what it told', () => {
  const before = new Crossings();
  told(before, [0.95]);
  const after = new Crossings(before.above);
  assert.deepEqual(told(after, [0.95, 0.8, 0.95]), [false, false, true]);
});

test('a device whose name comes later is not told twice', () => {
  const crossings = new Crossings();
  assert.equal(crossings.passes('k ', 0.95, 0.9), true);
  crossings.rename('k ', 'k cuda:0');
  assert.deepEqual(told(crossings, [0.95]), [false]);
});
