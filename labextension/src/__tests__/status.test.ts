import assert from 'node:assert/strict';
import test from 'node:test';

import { statusOf } from '../status';
import type { ILive } from '../tokens';
import { live as sampleLive, sample, state } from './samples';

const present = state();
const live = sampleLive();
const unmeasured = sample('live_unmeasured') as unknown as ILive;

test('an idle kernel shows its present', () => {
  assert.deepEqual(statusOf({ kernelId: 'k', live: null, present }), {
    text: '3.10 of 7.93 GiB',
    share: 0.391,
    tip: 'cuda:0: 3.10 GiB allocated of 7.93 GiB'
  });
});

test('a running cell shows what moves', () => {
  assert.deepEqual(statusOf({ kernelId: 'k', live, present }), {
    text: '2.90 of 7.93 GiB',
    share: 0.366,
    tip: '[7] train one epoch · 12 s · now 2.90 GiB · peak 3.10 GiB'
  });
});

test('a cell that has just ended is shown until the present has caught up', () => {
  const last = { ...live, running: false, taken_at: present.taken_at + 1 };
  const shown = statusOf({ kernelId: 'k', live: null, lastLive: last, present });
  assert.equal(shown?.text, '2.90 of 7.93 GiB');
  const later = { ...present, taken_at: last.taken_at + 1 };
  assert.equal(statusOf({ kernelId: 'k', live: null, lastLive: last, present: later })?.text, '3.10 of 7.93 GiB');
});

test('a cell that is not measured leaves the present', () => {
  assert.equal(
    statusOf({ kernelId: 'k', live: unmeasured, present })?.text,
    '3.10 of 7.93 GiB'
  );
});

test('nothing is shown without a kernel or before it said anything', () => {
  assert.equal(statusOf({ kernelId: null, live: null, present }), null);
  assert.equal(statusOf({ kernelId: 'k', live: null, present: null }), null);
  assert.equal(statusOf({ kernelId: 'k', live: unmeasured, present: null }), null);
});

test('an unknown share stays unknown', () => {
  const unknown = { ...present, share: null };
  assert.equal(statusOf({ kernelId: 'k', live: null, present: unknown })?.share, null);
});

test('a bar is never longer than its frame', () => {
  const above = { ...present, share: 1.2 };
  assert.equal(statusOf({ kernelId: 'k', live: null, present: above })?.share, 1);
});
