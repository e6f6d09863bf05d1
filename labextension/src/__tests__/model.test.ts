import assert from 'node:assert/strict';
import test from 'node:test';

import type { Kernel } from '@jupyterlab/services';

import type { IConnector, IFollowedKernel, IListener } from '../listener';
import { MemoryModel } from '../model';
import type { PanelState } from '../states';
import type { FromKernel, ToKernel } from '../tokens';
import { busyHello, hello, live, liveEnd, sample, state } from './samples';

class FakeConnector implements IConnector {
  constructor(readonly kernelId: string) {}

  calls: string[] = [];
  sent: ToKernel[] = [];

  attach(): void {
    this.calls.push('attach');
  }

  load(): void {
    this.calls.push('load');
  }

  send(message: ToKernel): void {
    this.sent.push(message);
  }

  dispose(): void {
    this.calls.push('dispose');
  }
}

/** A model, the connectors it made and what each would tell. */
class Scene {
  connectors: FakeConnector[] = [];
  listeners: IListener[] = [];
  now = 5_000;
  model = new MemoryModel(
    (kernel, to) => {
      this.connectors.push(new FakeConnector(kernel.id));
      this.listeners.push(to);
      return this.connectors[this.connectors.length - 1];
    },
    () => this.now
  );

  get to(): IListener {
    return this.listeners[this.listeners.length - 1];
  }

  /** Follows a kernel whose nbmem answered. */
  meet(id: string): this {
    this.model.follow(followed(id));
    this.to.heard(hello());
    return this;
  }
}

const KERNELS = new Map<string, Kernel.IKernelConnection>();

function kernel(id: string): Kernel.IKernelConnection {
  const made = KERNELS.get(id) ?? ({ id } as Kernel.IKernelConnection);
  KERNELS.set(id, made);
  return made;
}

function followed(id: string | null, more: Partial<IFollowedKernel> = {}): IFollowedKernel {
  const owner = OWNER;
  const own = id === null ? null : kernel(id);
  return { owner, kernel: own, starting: false, hasWidgets: true, ...more };
}

const OWNER = {};

test('without a notebook it says so', () => {
  const { model } = new Scene();
  model.follow(null);
  assert.deepEqual(model.state, { kind: 'no-notebook' });
  assert.equal(model.kernelId, null);
});

test('a notebook without a kernel is one thing, a kernel that comes another', () => {
  const { model } = new Scene();
  model.follow(followed(null));
  assert.deepEqual(model.state, { kind: 'no-kernel' });
  model.follow(followed(null, { starting: true }));
  assert.deepEqual(model.state, { kind: 'starting', why: 'starting' });
});

test('a followed kernel is asked once', () => {
  const { model, connectors } = new Scene();
  model.follow(followed('a'));
  model.follow(followed('a'));
  assert.deepEqual(model.state, { kind: 'starting', why: 'asking' });
  assert.deepEqual(connectors.map(each => each.calls), [['attach']]);
});

test('a hello brings the panel, the present and the badges', () => {
  const { model } = new Scene().meet('a');
  assert.deepEqual(model.state, { kind: 'ready', modelId: 'abc123' });
  assert.equal(model.present?.status, '3.10 of 7.93 GiB');
  assert.equal(model.marks.get('c7')?.peak, '▲ 3.10 GiB');
  assert.equal(model.live, null);
});

test('a busy kernel tells what runs until its panel is built', () => {
  const scene = new Scene();
  scene.model.follow(followed('a'));
  scene.to.heard(busyHello());
  const sentence = 'The panel comes when cell [7] has ended.';
  assert.deepEqual(scene.model.state, { kind: 'waiting', sentence });
  assert.equal(scene.model.live?.title, '[7] train one epoch');
  scene.to.heard(sample('panel') as unknown as FromKernel);
  assert.deepEqual(scene.model.state, { kind: 'ready', modelId: 'abc123' });
});

test('a panel that could not be built says why', () => {
  const scene = new Scene().meet('a');
  const trouble = 'run `%pip install ipywidgets`';
  scene.to.heard({ type: 'panel', protocol: 1, model_id: null, trouble });
  assert.deepEqual(scene.model.state, { kind: 'waiting', sentence: trouble });
});

test('a page without widgets says so, and shows the panel when they have come', () => {
  const scene = new Scene();
  scene.model.follow(followed('a', { hasWidgets: false }));
  scene.to.heard(hello());
  assert.deepEqual(scene.model.state, { kind: 'no-widgets' });
  scene.model.follow(followed('a'));
  assert.deepEqual(scene.model.state, { kind: 'ready', modelId: 'abc123' });
});

test('a page without widgets is built no panel, and asks anew when it can draw one', () => {
  const scene = new Scene();
  scene.model.follow(followed('a', { hasWidgets: false }));
  scene.to.heard({ ...hello(), model_id: null, waits: 'no panel' });
  assert.deepEqual(scene.model.state, { kind: 'no-widgets' });
  scene.model.follow(followed('a'));
  assert.deepEqual(scene.connectors[0].calls, ['attach', 'attach']);
});

test('live figures carry when they came and end with their cell, whose last stay readable', () => {
  const scene = new Scene().meet('a');
  scene.now = 9_000;
  scene.to.heard(live());
  assert.equal(scene.model.liveAt, 9_000);
  assert.equal(scene.model.live?.text, '12 s · now 2.90 GiB · peak 3.10 GiB');
  scene.to.heard(liveEnd());
  assert.equal(scene.model.live, null);
  assert.equal(scene.model.lastLive?.title, '[7] train one epoch');
});

test('a reading that was overtaken by the end of its cell starts nothing anew', () => {
  const scene = new Scene().meet('a');
  scene.to.heard({ ...liveEnd(), taken_at: 1001 });
  scene.to.heard({ ...live(), taken_at: 1000.9 });
  assert.equal(scene.model.live, null);
});

test('changed marks join the others; whole ones replace them', () => {
  const scene = new Scene().meet('a');
  const mark = { ...hello().marks[0], cell_id: 'c8', number: 8 };
  scene.to.heard({ type: 'marks', protocol: 1, whole: false, marks: [mark] });
  assert.deepEqual([...scene.model.marks.keys()], ['c7', 'c8']);
  const nameless = { ...mark, cell_id: null, number: 9 };
  scene.to.heard({ type: 'marks', protocol: 1, whole: true, marks: [nameless] });
  assert.deepEqual([...scene.model.marks.keys()], ['[9]']);
});

test('another kernel begins with nothing of the one before', () => {
  const scene = new Scene().meet('a');
  scene.to.heard(live());
  scene.model.follow(followed('b', { owner: {} }));
  const { state, present, past, lastLive, marks } = scene.model;
  assert.deepEqual(state, { kind: 'starting', why: 'asking' });
  assert.deepEqual([present, past, scene.model.live, lastLive, marks.size], [null, null, null, null, 0]);
  assert.deepEqual(scene.connectors[0].calls, ['attach', 'dispose']);
});

test('a restart leaves the last state as past, without badges', () => {
  const scene = new Scene().meet('a');
  scene.to.ended('restarted', false);
  assert.deepEqual(scene.model.state, { kind: 'starting', why: 'restarting' });
  assert.deepEqual(scene.model.past, { state: state(), how: 'restarted' });
  assert.equal(scene.model.present, null);
  assert.equal(scene.model.marks.size, 0);
});

test('a crash, which is told as a restart first, is told as one', () => {
  const scene = new Scene().meet('a');
  scene.to.ended('restarted', false);
  scene.to.ended('died', false);
  assert.equal(scene.model.past?.how, 'died');
});

test('a dead kernel leaves its last state readable', () => {
  const scene = new Scene().meet('a');
  scene.to.ended('died', true);
  assert.deepEqual(scene.model.state, { kind: 'past' });
  assert.equal(scene.model.past?.state.copy, state().copy);
});

test('the past stays until the new life has a panel', () => {
  const scene = new Scene().meet('a');
  scene.to.ended('restarted', false);
  scene.to.stands({ kind: 'not-loaded', loading: false, failed: '' });
  assert.equal(scene.model.past?.how, 'restarted');
  scene.to.heard(hello());
  assert.equal(scene.model.past, null);
  scene.model.follow(null);
  scene.model.follow(followed('a'));
  assert.equal(scene.model.past, null);
});

test('a kernel that was shut down leaves its notebook the past, another notebook nothing', () => {
  const scene = new Scene().meet('a');
  scene.model.follow(followed(null));
  assert.deepEqual(scene.model.state, { kind: 'no-kernel' });
  assert.equal(scene.model.past?.how, 'shut-down');
  scene.model.follow(followed(null, { owner: {} }));
  assert.equal(scene.model.past, null);
});

test('a kernel that lost nbmem unseen has a past when it is looked at again', () => {
  const scene = new Scene().meet('a');
  scene.model.follow(followed('b', { owner: {} }));
  scene.model.follow(followed('a'));
  scene.to.stands({ kind: 'not-loaded', loading: false, failed: '' });
  assert.equal(scene.model.past?.how, 'unseen');
});

test('after an unload the figures are past', () => {
  const scene = new Scene().meet('a');
  scene.to.heard(sample('bye') as unknown as FromKernel);
  assert.equal(scene.model.past?.how, 'unloaded');
  assert.equal(scene.model.present, null);
});

test('trouble and malformed messages are told above a panel that stays', () => {
  const scene = new Scene().meet('a');
  scene.to.stumbled('state.copy');
  assert.deepEqual(scene.model.notice, { kind: 'malformed', what: 'state.copy' });
  scene.to.heard(sample('trouble') as unknown as FromKernel);
  assert.equal(scene.model.notice?.kind, 'trouble');
  assert.equal(scene.model.state.kind, 'ready');
  scene.model.dismiss();
  assert.equal(scene.model.notice, null);
});

test('a lost connection is told until it is back', () => {
  const scene = new Scene().meet('a');
  scene.to.heard(live());
  scene.to.offline(true);
  assert.deepEqual(scene.model.notice, { kind: 'offline' });
  assert.equal(scene.model.live, null);
  scene.to.offline(false);
  assert.equal(scene.model.notice, null);
});

test('refresh asks the channel where there is one, and begins anew where there is none', () => {
  const scene = new Scene().meet('a');
  scene.model.refresh();
  assert.deepEqual(scene.connectors[0].sent, [{ type: 'refresh' }]);
  scene.to.stands({ kind: 'no-package' });
  scene.model.refresh();
  assert.deepEqual(scene.connectors[0].calls, ['attach', 'attach']);
});

test('a panel that the page cannot draw is asked for anew, once until one was drawn', () => {
  const scene = new Scene().meet('a');
  scene.model.settled('drawn');
  assert.deepEqual(scene.connectors[0].sent, []);
  scene.model.settled('lost');
  assert.deepEqual(scene.connectors[0].sent, [sample('to_rebuild')]);
  scene.model.settled('lost');
  assert.equal(scene.connectors[0].sent.length, 1);
  scene.model.rebuild();
  assert.equal(scene.connectors[0].sent.length, 2);
  scene.model.settled('drawn');
  scene.model.settled('lost');
  assert.equal(scene.connectors[0].sent.length, 3);
  scene.meet('b').model.settled('lost');
  assert.deepEqual(scene.connectors[1].sent, [{ type: 'rebuild' }]);
});

test('a mismatch shows no figures', () => {
  const scene = new Scene().meet('a');
  const stands: PanelState = { kind: 'mismatch', older: 'page', version: '9.0.0' };
  scene.to.stands(stands);
  assert.deepEqual(scene.model.state, stands);
  assert.deepEqual([scene.model.present, scene.model.marks.size], [null, 0]);
});

test('of many kernels the oldest are forgotten', () => {
  const scene = new Scene();
  for (let index = 0; index < 40; index++) {
    scene.meet(`k${index}`);
  }
  const pastOf = (id: string) => {
    scene.model.follow(followed(id));
    scene.to.ended('died', true);
    return scene.model.past?.how;
  };
  assert.equal(pastOf('k0'), undefined);
  assert.equal(pastOf('k39'), 'died');
});
