import type { TranslationBundle } from '@jupyterlab/translation';
import type { IPast, Notice, PanelState } from './states';

/** What a state says, and what may be pressed. */
export interface ISaying {
  sentence: string;
  /** A command of the panel and its label; null where nothing can be pressed. */
  act: { run: Act; label: string; busy: boolean } | null;
}

/** What the button below a sentence does. */
export type Act = 'load' | 'choose-kernel' | 'restart' | 'refresh';

/** Says where the page stands, in one sentence; null where the kernel's panel speaks. */
export function sayState(state: PanelState, name: string, trans: TranslationBundle): ISaying | null {
  const load = { run: 'load' as const, label: trans.__('Load nbmem'), busy: false };
  switch (state.kind) {
    case 'no-notebook':
      return say(trans.__('Open a notebook or a console to see what its cells do to memory.'));
    case 'no-kernel':
      return say(trans.__('%1 has no kernel: choose one to see its memory.', name), {
        run: 'choose-kernel',
        label: trans.__('Choose a kernel…'),
        busy: false
      });
    case 'starting':
      return say(sayStart(state.why, name, trans));
    case 'other-language':
      return say(
        trans.__('The kernel of %1 runs %2: nbmem measures PyTorch in Python kernels.', name, state.language)
      );
    case 'not-loaded':
      return sayNotLoaded(state.failed, name, { ...load, busy: state.loading }, trans);
    case 'no-package':
      return say(
        trans.__(
          "nbmem is not installed in this kernel's environment: run `%pip install nbmem` in a cell, then press Load again."
        ),
        load
      );
    case 'no-torch':
      return say(
        finish(state.sentence) ||
          trans.__(
            'nbmem measures PyTorch, which this kernel lacks: run `%pip install torch` in a cell, then press Load.'
          ),
        load
      );
    case 'waiting':
      return say(
        finish(state.sentence) ||
          trans.__('%1 is running a cell: the panel comes when the kernel can answer.', name)
      );
    case 'no-comms':
      return say(
        trans.__(
          'Another document held the widgets of this kernel: close %1 and open it again to see its memory here.',
          name
        )
      );
    case 'no-widgets':
      return say(
        trans.__(
          'This page cannot draw the panel: run `pip install ipywidgets anywidget` in the environment that JupyterLab runs in, then reload the page. `%gpumem` in a cell tells the same as text.'
        )
      );
    case 'mismatch':
      return say(sayMismatch(state.older, state.version, trans));
    case 'past':
      return say(trans.__('The kernel of %1 died: restart it to go on.', name), {
        run: 'restart',
        label: trans.__('Restart the kernel…'),
        busy: false
      });
    case 'ready':
      return null;
  }
}

/** Says above a panel of the past whose it is and of when. */
export function sayPast(past: IPast, trans: TranslationBundle): string {
  const when = new Date(past.state.taken_at * 1000).toTimeString().slice(0, 8);
  switch (past.how) {
    case 'died':
      return trans.__('Past: what the kernel last showed before it died, at %1.', when);
    case 'restarted':
      return trans.__('Past: what the kernel last showed before its restart, at %1.', when);
    case 'shut-down':
      return trans.__('Past: what the kernel last showed before it was shut down, at %1.', when);
    case 'unloaded':
      return trans.__('Past: what was shown before nbmem was unloaded, at %1.', when);
    case 'unseen':
      return trans.__('Past: what this kernel last showed here, at %1.', when);
  }
}

/** Says why the widget that the kernel names is not there: not yet, or not at all. */
export function sayUndrawn(trans: TranslationBundle): Record<'late' | 'lost', string> {
  return {
    late: trans.__('The panel comes as soon as the kernel is free.'),
    lost: trans.__(
      'This page cannot draw the panel that the kernel names: press ⟳, or run `%gpumem panel` in a cell.'
    )
  };
}

/** Says what is amiss while the panel stays. */
export function sayNotice(notice: Notice, trans: TranslationBundle): string {
  switch (notice.kind) {
    case 'trouble':
      return notice.sentence;
    case 'malformed':
      return trans.__(
        'The kernel sent a message that this page cannot read (%1): press ⟳, and if it comes again update nbmem on both sides.',
        notice.what
      );
    case 'offline':
      return trans.__('The connection to the kernel is lost: these figures stand still until it is back.');
  }
}

function say(sentence: string, act: ISaying['act'] = null): ISaying {
  return { sentence, act };
}

function sayStart(why: 'starting' | 'restarting' | 'asking', name: string, trans: TranslationBundle): string {
  switch (why) {
    case 'starting':
      return trans.__('The kernel of %1 is starting.', name);
    case 'restarting':
      return trans.__('The kernel of %1 is restarting.', name);
    case 'asking':
      return trans.__('Asking the kernel of %1.', name);
  }
}

function sayNotLoaded(
  failed: string,
  name: string,
  load: NonNullable<ISaying['act']>,
  trans: TranslationBundle
): ISaying {
  if (load.busy) {
    return say(trans.__('Loading nbmem in the kernel of %1.', name), {
      ...load,
      label: trans.__('Loading…')
    });
  }
  return failed === ''
    ? say(trans.__('nbmem is not loaded in %1.', name), load)
    : say(trans.__('nbmem could not be loaded in %1: %2', name, finish(failed)), load);
}

function sayMismatch(older: 'page' | 'kernel', version: string, trans: TranslationBundle): string {
  const theirs = `nbmem ${version}`.trim();
  return older === 'page'
    ? trans.__(
        'The kernel has %1, which is newer than this page: run `pip install -U nbmem` in the environment that JupyterLab runs in, then reload the page.',
        theirs
      )
    : trans.__(
        'The kernel has %1, which is older than this page: run `%pip install -U nbmem` in a cell, then restart the kernel.',
        theirs
      );
}

function finish(sentence: string): string {
  return sentence === '' || /[.!?…]$/.test(sentence) ? sentence : `${sentence}.`;
}
