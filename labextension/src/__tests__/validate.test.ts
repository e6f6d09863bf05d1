import assert from 'node:assert/strict';
import test from 'node:test';

import { LONGEST_COPY, readMessage } from '../validate';
import { sample } from './samples';

const FROM_KERNEL = [
  'hello',
  'hello_busy',
  'live',
  'live_end',
  'live_unmeasured',
  'marks',
  'panel',
  'state',
  'bye',
  'trouble'
];

for (const name of FROM_KERNEL) {
  test(`the sample ${name} is read as it was sent`, () => {
    assert.deepEqual(readMessage(sample(name)), { kind: 'message', message: sample(name) });
  });

  for (const field of Object.keys(sample(name)).filter(each => each !== 'protocol')) {
    test(`the sample ${name} without its ${field} is malformed, and that field is named`, () => {
      const { [field]: _, ...rest } = sample(name);
      const what = field === 'type' ? 'type' : `${sample(name).type}.${field}`;
      assert.deepEqual(readMessage(rest), { kind: 'malformed', what });
    });
  }
}

test('a message from the future tells its protocol and its version', () => {
  const expected = { kind: 'mismatch', theirs: 99, version: '9.0.0' };
  assert.deepEqual(readMessage(sample('from_the_future')), expected);
});

for (const [what, data] of Object.entries({
  nothing: null,
  'a text': 'hello',
  'a list': [1],
  'no protocol': { type: 'bye' },
  'a protocol that is no number': { type: 'bye', protocol: '1' },
  'an unknown type': { type: 'dance', protocol: 1 },
  "a type that JavaScript's objects have": { type: 'constructor', protocol: 1 }
})) {
  test(`${what} is malformed`, () => {
    assert.equal(readMessage(data).kind, 'malformed');
  });
}

test('a copy of five million characters is malformed; one of the longest length is not', () => {
  const state = sample('state');
  assert.deepEqual(readMessage({ ...state, copy: 'x'.repeat(5_000_000) }), {
    kind: 'malformed',
    what: 'state.copy'
  });
  assert.equal(readMessage({ ...state, copy: 'x'.repeat(LONGEST_COPY) }).kind, 'message');
});

test('one mark that is wrong among good ones makes the message malformed', () => {
  const marks = sample('marks');
  const wrong = { ...marks, marks: [...(marks.marks as object[]), { serial: 'x' }] };
  assert.deepEqual(readMessage(wrong), { kind: 'malformed', what: 'marks.marks' });
});
