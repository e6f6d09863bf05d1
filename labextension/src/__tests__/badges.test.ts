import assert from 'node:assert/strict';
import test from 'node:test';

import { Signal } from '@lumino/signaling';

import { bare, levelOf } from '../badge';
import { Badges, IBadgesOptions } from '../badges';
import type { IMark } from '../tokens';
import { FakeElement, useFakePage } from './fake_page';

const SHOWN: number[] = [];

function mark(id: string, more: Partial<IMark> = {}): IMark {
  const figures = { peak: '▲ 3.10 GiB', stayed: '+300 MiB', share: 0.391 };
  return { cell_id: id, number: 7, serial: 5, tip: `tip of ${id}`, ...figures, ...more };
}

class FakeCell {
  constructor(id: string, ready = Promise.resolve()) {
    this.model = { id };
    this.ready = ready;
  }

  model: { id: string };
  ready: Promise<void>;
  isDisposed = false;
  input = new FakeElement('div');
  layout = [
    { hasClass: () => false, node: new FakeElement('div') },
    { hasClass: (name: string) => name === 'jp-Cell-inputWrapper', node: this.input }
  ];
}

class FakePanel {
  constructor(
    public kernel: string | null,
    ...cells: FakeCell[]
  ) {
    this.content.widgets = cells;
  }

  content = {
    widgets: [] as FakeCell[],
    model: { cells: { changed: new Signal<object, void>({}) } },
    modelChanged: new Signal<object, void>({})
  };

  isDisposed = false;
  disposed = new Signal<object, void>({});
  sessionContext = {
    session: { kernel: { id: this.kernel } },
    kernelChanged: new Signal<object, void>({}),
    statusChanged: new Signal<object, string>({})
  };

  /** The texts below each prompt. */
  get badges(): string[] {
    return this.content.widgets.map(cell => cell.input.text);
  }

  async setCells(...cells: FakeCell[]): Promise<void> {
    this.content.widgets = cells;
    this.content.model.cells.changed.emit();
    await settled();
  }
}

async function settled(): Promise<void> {
  await new Promise(resolve => setImmediate(resolve));
}

async function open(...panels: FakePanel[]) {
  useFakePage();
  SHOWN.length = 0;
  const widgetAdded = new Signal<object, FakePanel>({});
  const model = {
    kernelId: 'k' as string | null,
    marks: new Map<string, IMark>(),
    state: { kind: 'ready' },
    changed: new Signal<object, void>({}),
    marksChanged: new Signal<object, void>({})
  };
  const settings = { badges: true, changed: new Signal<object, void>({}) };
  const tracker = { widgetAdded, forEach: (each: (panel: FakePanel) => void) => panels.forEach(each) };
  const options = { tracker, model, settings, show: (serial: number) => SHOWN.push(serial) };
  const badges = new Badges(options as unknown as IBadgesOptions);
  await settled();
  const tell = async (kernel: string, ...marks: IMark[]) => {
    model.kernelId = kernel;
    model.marks = new Map(marks.map(each => [each.cell_id ?? '', each]));
    model.marksChanged.emit();
    await settled();
  };
  return { badges, model, settings, tell, widgetAdded };
}

test('the share has four levels', () => {
  const shares = [null, NaN, 0, 0.499, 0.5, 0.799, 0.8, 1.3];
  assert.deepEqual(shares.map(levelOf), [
    'unknown',
    'unknown',
    'low',
    'low',
    'middle',
    'middle',
    'high',
    'high'
  ]);
});

test('the badge draws the triangle of a peak by itself', () => {
  assert.equal(bare('▲ 3.10 GiB'), '3.10 GiB');
  assert.equal(bare('3.10 GiB'), '3.10 GiB');
});

test('a measured cell has a badge with peak and what stayed, others have none', async () => {
  const panel = new FakePanel('k', new FakeCell('a'), new FakeCell('b'));
  const { tell } = await open(panel);
  await tell('k', mark('b'), mark('not here'));
  assert.deepEqual(panel.badges, ['', '3.10 GiB+300 MiB']);
});

test('a badge says its tip and opens its report', async () => {
  const panel = new FakePanel('k', new FakeCell('a'));
  const { tell } = await open(panel);
  await tell('k', mark('a', { serial: 12, share: 0.93 }));
  const [button] = panel.content.widgets[0].input.find('button');
  assert.equal(button.attributes['aria-label'], 'tip of a');
  assert.equal(button.title, 'tip of a');
  assert.match(button.className, /nbmem-badge-high/);
  button.click();
  assert.deepEqual(SHOWN, [12]);
});

test('a figure that changed is drawn into the same badge; the others are not touched', async () => {
  const cells = Array.from({ length: 1000 }, (_, index) => new FakeCell(`c${index}`));
  const panel = new FakePanel('k', ...cells);
  const { tell } = await open(panel);
  const marks = cells.map(cell => mark(cell.model.id));
  await tell('k', ...marks);
  const node = cells[7].input.children[0];
  FakeElement.changes = 0;
  await tell('k', ...marks.map((each, index) => (index === 7 ? mark('c7', { stayed: '' }) : each)));
  assert.equal(panel.badges[7], '3.10 GiB');
  assert.equal(cells[7].input.children[0], node);
  assert.equal(FakeElement.changes < 20, true, `${FakeElement.changes} changes of the page`);
});

test('a moved cell keeps its badge, a deleted one loses it', async () => {
  const [a, b] = [new FakeCell('a'), new FakeCell('b')];
  const panel = new FakePanel('k', a, b);
  const { tell } = await open(panel);
  await tell('k', mark('a', { stayed: '' }), mark('b'));
  await panel.setCells(new FakeCell('b'), a); // JupyterLab makes a moved cell anew
  assert.deepEqual(panel.badges, ['3.10 GiB+300 MiB', '3.10 GiB']);
  await panel.setCells(a);
  assert.deepEqual(panel.badges, ['3.10 GiB']);
  assert.equal(b.input.text, '');
});

test('a cell that was never scrolled to gets its badge when it has its parts', async () => {
  let render: () => void = () => undefined;
  const far = new FakeCell('far', new Promise(resolve => (render = resolve)));
  const panel = new FakePanel('k', far);
  const { tell } = await open(panel);
  await tell('k', mark('far'));
  assert.deepEqual(panel.badges, ['']);
  render();
  await settled();
  assert.deepEqual(panel.badges, ['3.10 GiB+300 MiB']);
});

test('the setting takes all badges away and brings them back', async () => {
  const panel = new FakePanel('k', new FakeCell('a'));
  const { tell, settings } = await open(panel);
  await tell('k', mark('a'));
  settings.badges = false;
  settings.changed.emit();
  assert.deepEqual(panel.badges, ['']);
  settings.badges = true;
  settings.changed.emit();
  await settled();
  assert.deepEqual(panel.badges, ['3.10 GiB+300 MiB']);
});

test('a restart takes the badges of its notebook only', async () => {
  const here = new FakePanel('k', new FakeCell('a'));
  const there = new FakePanel('other', new FakeCell('a'));
  const { tell } = await open(here, there);
  await tell('other', mark('a', { stayed: '' }));
  await tell('k', mark('a'));
  here.sessionContext.statusChanged.emit('restarting');
  assert.deepEqual([here.badges, there.badges], [[''], ['3.10 GiB']]);
  await tell('k', mark('a', { peak: '▲ 1.00 GiB' }));
  assert.deepEqual(here.badges, ['1.00 GiB+300 MiB']);
});

test('notebooks on one kernel each show the marks of their own cells', async () => {
  const one = new FakePanel('k', new FakeCell('a'));
  const two = new FakePanel('k', new FakeCell('b'));
  const { tell } = await open(one, two);
  await tell('k', mark('a'), mark('b', { stayed: '' }));
  assert.deepEqual([one.badges, two.badges], [['3.10 GiB+300 MiB'], ['3.10 GiB']]);
});

test('a notebook whose kernel is not followed now keeps its badges when cells come', async () => {
  const panel = new FakePanel('k', new FakeCell('a'));
  const { tell } = await open(panel);
  await tell('k', mark('a'));
  await tell('other');
  await panel.setCells(new FakeCell('new'), new FakeCell('a'));
  assert.deepEqual(panel.badges, ['', '3.10 GiB+300 MiB']);
});

test('a kernel that turns out to have lost nbmem has no badges left', async () => {
  const panel = new FakePanel('k', new FakeCell('a'));
  const { tell, model } = await open(panel);
  await tell('k', mark('a'));
  model.marks = new Map();
  model.state = { kind: 'not-loaded' };
  model.changed.emit();
  assert.deepEqual(panel.badges, ['']);
});

test('a notebook that opens on a known kernel gets its badges', async () => {
  const { tell, widgetAdded } = await open();
  const panel = new FakePanel('k', new FakeCell('a'));
  const first = new FakePanel('k', new FakeCell('b'));
  widgetAdded.emit(first);
  await tell('k', mark('a'), mark('b'));
  widgetAdded.emit(panel);
  await settled();
  assert.deepEqual(panel.badges, ['3.10 GiB+300 MiB']);
});

test('hostile figures are text', async () => {
  const panel = new FakePanel('k', new FakeCell('"><img src=x>'));
  const { tell } = await open(panel);
  await tell('k', mark('"><img src=x>', { peak: '<b onclick=x>', stayed: '' }));
  assert.deepEqual(panel.badges, ['<b onclick=x>']);
});

test('what ends takes all badges away', async () => {
  const panel = new FakePanel('k', new FakeCell('a'));
  const { badges, tell } = await open(panel);
  await tell('k', mark('a'));
  badges.dispose();
  assert.deepEqual(panel.badges, ['']);
});
