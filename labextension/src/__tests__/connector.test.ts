import assert from 'node:assert/strict';
import test from 'node:test';

import type { Kernel } from '@jupyterlab/services';

import { Connector } from '../connector';
import type { IListener } from '../listener';
import type { PanelState } from '../states';
import { FakeComm, FakeKernel } from './fake_kernel';
import { sample } from './samples';

const PATIENCE = { info: 20, answer: 20, subshell: 20, hello: 40 };
const OPENING = { version: '0.1.0', client: 'page-1', widgets: true };
const NOT_LOADED: PanelState = { kind: 'not-loaded', loading: false, failed: '' };

/** Writes down what a connector tells, and waits for what is to be told. */
class Ear implements IListener {
  told: string[] = [];
  states: PanelState[] = [];

  stands(state: PanelState): void {
    this.states.push(state);
    this._note(state.kind);
  }

  heard(message: { type: string }): void {
    this._note(`heard ${message.type}`);
  }

  stumbled(what: string): void {
    this._note(`stumbled ${what}`);
  }

  offline(lost: boolean): void {
    this._note(lost ? 'offline' : 'online');
  }

  ended(how: string, dead: boolean): void {
    this._note(`${how}${dead ? ' for good' : ''}`);
  }

  get last(): PanelState {
    return this.states[this.states.length - 1];
  }

  /** Waits until something was told last. */
  until(what: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const failed = () => reject(new Error(`waited for ${what}, told: ${this.told.join(', ')}`));
      const timer = setTimeout(failed, 2_000);
      this._check = () => {
        if (this.told[this.told.length - 1] === what) {
          clearTimeout(timer);
          resolve();
        }
      };
      this._check();
    });
  }

  private _note(what: string): void {
    this.told.push(what);
    this._check();
  }

  private _check = () => undefined as void;
}

function connect(kernel: FakeKernel): { ear: Ear; connector: Connector } {
  const ear = new Ear();
  const real = kernel as unknown as Kernel.IKernelConnection;
  return { ear, connector: new Connector(real, ear, OPENING, PATIENCE) };
}

/** Waits until the kernel has so many opened comms. */
async function opened(kernel: FakeKernel, count: number): Promise<FakeComm> {
  for (let look = 0; look < 400; look++) {
    if (kernel.comms.filter(comm => comm.opened !== null).length >= count) {
      return kernel.comm;
    }
    await new Promise(resolve => setTimeout(resolve, 5));
  }
  throw new Error(`${count} comms were not opened`);
}

/** A kernel that has nbmem, met. */
async function met(kernel = new FakeKernel({ target: true })) {
  const { ear, connector } = connect(kernel);
  connector.attach();
  const comm = await opened(kernel, 1);
  comm.say(sample('hello'));
  await ear.until('heard hello');
  return { kernel, ear, connector, comm };
}

test('a kernel with nbmem is opened with the words of the contract', async () => {
  const { ear, comm, connector } = await met();
  assert.deepEqual(comm.opened, sample('to_open'));
  assert.deepEqual(ear.told, ['starting', 'heard hello']);
  connector.send({ type: 'refresh' });
  assert.deepEqual(comm.sent, [sample('to_refresh')]);
});

test('a kernel without nbmem is not asked twice, and again when a cell has run', async () => {
  const kernel = new FakeKernel();
  const { ear, connector } = connect(kernel);
  connector.attach();
  await ear.until('not-loaded');
  assert.deepEqual(kernel.probes, [['target', 'loaded', 'installed', 'torch']]);
  kernel.publish('status', { execution_state: 'idle' }, { msg_type: 'execute_request' });
  assert.equal(kernel.probes.length, 1);
  kernel.has.target = true;
  kernel.run();
  await opened(kernel, 1);
  assert.deepEqual(kernel.probes.slice(1), [['target', 'loaded']]);
});

test('what the environment lacks is told apart', async () => {
  for (const [has, kind] of [
    [{ installed: false }, 'no-package'],
    [{ torch: false }, 'no-torch'],
    [{ loaded: true }, 'mismatch']
  ] as const) {
    const { ear, connector } = connect(new FakeKernel(has));
    connector.attach();
    await ear.until(kind);
  }
});

test('a kernel of another language is not asked', async () => {
  const kernel = new FakeKernel();
  kernel.info = Promise.resolve({ language_info: { name: 'julia' } });
  const { ear, connector } = connect(kernel);
  connector.attach();
  await ear.until('other-language');
  kernel.run();
  assert.deepEqual(ear.last, { kind: 'other-language', language: 'julia' });
  assert.equal(kernel.probes.length, 0);
});

test('a connection without comms is told', async () => {
  const kernel = new FakeKernel({ target: true });
  kernel.handleComms = false;
  const { ear, connector } = connect(kernel);
  connector.attach();
  await ear.until('no-comms');
});

test('the button loads nbmem, and the panel follows', async () => {
  const kernel = new FakeKernel();
  const { ear, connector } = connect(kernel);
  connector.attach();
  await ear.until('not-loaded');
  connector.load();
  assert.deepEqual(ear.last, { kind: 'not-loaded', loading: true, failed: '' });
  kernel.has.target = true;
  await opened(kernel, 1);
  assert.equal(kernel.loads, 1);
});

test('why a load failed is told in the words of the kernel', async () => {
  const no = "No module named 'nbmem'";
  const torch = 'nbmem measures PyTorch, which this kernel lacks: run `%pip install torch`';
  for (const [ename, evalue, state] of [
    ['ModuleNotFoundError', no, { kind: 'no-package' }],
    ['UsageError', torch, { kind: 'no-torch', sentence: torch }],
    ['ImportError', 'broken', { ...NOT_LOADED, failed: 'ImportError: broken' }]
  ] as const) {
    const kernel = new FakeKernel();
    kernel.loading = Promise.resolve({ content: { status: 'error', ename, evalue } });
    const { ear, connector } = connect(kernel);
    connector.load();
    await ear.until(state.kind);
    await new Promise(resolve => setImmediate(resolve));
    assert.deepEqual(ear.last, state);
  }
});

test('a busy kernel with subshells is opened at once, unasked, when the subshell has started', async () => {
  const kernel = new FakeKernel({ target: true });
  kernel.status = 'busy';
  kernel.supportsSubshells = true;
  let start = () => undefined as void;
  kernel.newComm = () => {
    const comm = new FakeComm();
    comm.commsOverSubshells = 'perCommTarget';
    comm.subshellStarted = new Promise(resolve => (start = resolve));
    return comm;
  };
  const { ear, connector } = connect(kernel);
  connector.attach();
  await ear.until('waiting');
  assert.equal(kernel.comm.opened, null);
  start();
  const comm = await opened(kernel, 1);
  comm.say(sample('hello_busy'));
  await ear.until('heard hello');
  assert.equal(kernel.probes.length, 0);
});

test('a busy kernel that has no nbmem closes the comm', async () => {
  const kernel = new FakeKernel();
  kernel.status = 'busy';
  kernel.supportsSubshells = true;
  const { ear, connector } = connect(kernel);
  connector.attach();
  const comm = await opened(kernel, 1);
  comm.onClose();
  assert.deepEqual(ear.last, NOT_LOADED);
});

test('a kernel that answers too late is asked again what it lacks, a few times', async () => {
  const kernel = new FakeKernel({ torch: false });
  kernel.supportsSubshells = true;
  kernel.mute = true;
  const { ear, connector } = connect(kernel);
  connector.attach();
  const comm = await opened(kernel, 1);
  kernel.mute = false;
  comm.onClose();
  await ear.until('no-torch');

  kernel.mute = true;
  connector.attach();
  for (let count = 2; count < 6; count++) {
    (await opened(kernel, count)).onClose();
  }
  await ear.until('not-loaded');
  const { length } = kernel.probes;
  await new Promise(resolve => setTimeout(resolve, 100));
  assert.equal(kernel.probes.length, length);
});

test('a busy kernel without subshells is waited for, and its live figures are heard', async () => {
  const kernel = new FakeKernel({ target: true });
  kernel.status = 'busy';
  const { ear, connector } = connect(kernel);
  connector.attach();
  await ear.until('waiting');
  kernel.broadcast(sample('live'));
  kernel.broadcast(sample('state'));
  assert.deepEqual(ear.told.slice(-2), ['waiting', 'heard live']);
  assert.equal(kernel.comms.length + kernel.probes.length, 0);
  kernel.turn('idle');
  await opened(kernel, 1);
});

test('a page opened in mid-cell asks and opens over the control channel', async () => {
  const kernel = new FakeKernel({ target: true });
  kernel.info = new Promise(() => undefined);
  kernel.status = 'unknown';
  kernel.mute = true;
  kernel.control = {
    kernel_info_request: {
      language_info: { name: 'python' },
      supported_features: ['kernel subshells']
    },
    create_subshell_request: { subshell_id: 'sub-1' },
    delete_subshell_request: {}
  };
  const { ear, connector } = connect(kernel);
  connector.attach();
  await ear.until('waiting');
  while (kernel.shells.length === 0) {
    await new Promise(resolve => setTimeout(resolve, 5));
  }
  assert.equal(kernel.shells[0].header.subshell_id, 'sub-1');
  assert.deepEqual(kernel.shells[0].content.data, sample('to_open'));
  kernel.comm.say(sample('hello_busy'));
  await ear.until('heard hello');
  assert.deepEqual(kernel.controls.slice(-2), ['create_subshell_request', 'delete_subshell_request']);
});

test('a kernel that speaks to every page while it was taken for without nbmem is asked once', async () => {
  const kernel = new FakeKernel();
  const { ear, connector } = connect(kernel);
  connector.attach();
  await ear.until('not-loaded');
  kernel.broadcast(sample('live'));
  kernel.broadcast(sample('live'));
  kernel.broadcast(sample('live'));
  await ear.until('not-loaded');
  kernel.broadcast(sample('live'));
  assert.equal(kernel.probes.length, 2);
});

test('broadcasts are heard, those of another comm are not', async () => {
  const { kernel, ear } = await met();
  kernel.broadcast(sample('state'));
  kernel.broadcast(sample('marks'));
  kernel.publish('comm_msg', { comm_id: 'other', data: sample('live') });
  assert.deepEqual(ear.told.slice(-3), ['heard hello', 'heard state', 'heard marks']);
});

test('malformed and unknown messages are told, and nothing is lost', async () => {
  const { kernel, ear, comm } = await met();
  comm.say({ type: 'dance', protocol: 1 });
  comm.say(null);
  kernel.broadcast('noise');
  kernel.broadcast(sample('live'));
  const told = ['stumbled type', 'stumbled no fields', 'stumbled no fields', 'heard live'];
  assert.deepEqual(ear.told.slice(-4), told);
});

test('a panel is heard when the kernel has it, or is too busy to say, and else told', async () => {
  const { kernel, ear, comm } = await met();
  const panel = sample('panel') as { model_id: string };
  comm.say(panel);
  await ear.until('stumbled panel');
  kernel.widgets = [panel.model_id];
  comm.say(panel);
  await ear.until('heard panel');
  comm.say({ ...panel, model_id: null });
  await ear.until('heard panel');
  kernel.mute = true;
  kernel.widgets = [];
  ear.told.length = 0;
  comm.say(panel);
  await ear.until('heard panel');
});

test('another protocol is refused on both sides, without a second try', async () => {
  for (const [protocol, older] of [
    [99, 'page'],
    [0, 'kernel']
  ] as const) {
    const kernel = new FakeKernel({ target: true });
    const { ear, connector } = connect(kernel);
    connector.attach();
    const comm = await opened(kernel, 1);
    comm.say({ ...sample('from_the_future'), protocol });
    assert.deepEqual(ear.last, { kind: 'mismatch', older, version: '9.0.0' });
    assert.equal(comm.closed, true);
    kernel.broadcast({ type: 'live', protocol });
    kernel.run();
    assert.equal(kernel.probes.length, 1);
  }
});

test('an unload is told, its comm is left, and a load in a cell is found', async () => {
  const { kernel, ear, comm } = await met();
  kernel.broadcast(sample('bye'));
  assert.deepEqual(ear.told.slice(-2), ['heard bye', 'not-loaded']);
  assert.equal(comm.closed, true);
  kernel.run();
  await opened(kernel, 2);
});

test('a comm that dies half way is opened once more, and then no more', async () => {
  const { kernel, ear, comm } = await met();
  comm.onClose();
  (await opened(kernel, 2)).say(sample('hello'));
  kernel.comm.onClose();
  assert.equal(ear.last.kind, 'not-loaded');
  assert.equal(kernel.comms.length, 2);
});

test('a restart is told, and the new kernel is asked when it is connected', async () => {
  const { kernel, ear } = await met();
  kernel.turn('restarting');
  assert.equal(ear.told[ear.told.length - 1], 'restarted');
  kernel.turn('idle');
  assert.equal(kernel.probes.length, 1);
  kernel.connect('connecting');
  kernel.connect('connected');
  await opened(kernel, 2);
  assert.deepEqual(kernel.probes[1], ['target', 'loaded', 'installed', 'torch']);
});

test('a crash and a death are told apart', async () => {
  const { kernel, ear, connector } = await met();
  kernel.turn('autorestarting');
  kernel.turn('dead');
  assert.deepEqual(ear.told.slice(-2), ['died', 'died for good']);
  connector.attach();
  await ear.until('died for good');
  assert.equal(kernel.comms.length, 1);
});

test('a lost connection is told, and the channel is opened anew when it is back', async () => {
  const { kernel, ear, comm } = await met();
  kernel.connect('connecting');
  assert.equal(ear.told[ear.told.length - 1], 'offline');
  kernel.connect('connected');
  assert.equal(comm.closed, true);
  await opened(kernel, 2);
  assert.ok(ear.told.includes('online'));
});

test('leaving closes the comm, and what comes later is dropped', async () => {
  const { kernel, ear, connector, comm } = await met();
  const before = [...ear.told];
  connector.dispose();
  comm.say(sample('hello'));
  kernel.broadcast(sample('live'));
  kernel.turn('restarting');
  assert.equal(comm.closed, true);
  assert.deepEqual(ear.told, before);
});

test('leaving in the middle of a question opens nothing', async () => {
  const kernel = new FakeKernel({ target: true });
  const { ear, connector } = connect(kernel);
  connector.attach();
  connector.dispose();
  await new Promise(resolve => setTimeout(resolve, PATIENCE.answer * 2));
  assert.deepEqual(kernel.comms, []);
  assert.deepEqual(ear.told, ['starting']);
});

test('a kernel that never answers an opened comm is waited for aloud', async () => {
  const kernel = new FakeKernel({ target: true });
  const { ear, connector } = connect(kernel);
  connector.attach();
  await opened(kernel, 1);
  await ear.until('waiting');
  connector.dispose();
});
