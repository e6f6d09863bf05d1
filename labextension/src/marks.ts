import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { IStatusBar } from '@jupyterlab/statusbar';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { Alert } from './alert';
import { Badges } from './badges';
import { Jumper } from './jump';
import type { MemoryModel } from './model';
import type { ISettings } from './settings';
import { StatusItem } from './status';
import { PROTOCOL } from './tokens';
import type { Follower } from './tracker';
import { VERSION } from './version';

/** What stands outside the panel needs this. */
export interface IMarksOptions {
  app: JupyterFrontEnd;
  model: MemoryModel;
  follower: Follower;
  settings: ISettings;
  trans: TranslationBundle;
  /** Null where the application has no notebooks. */
  notebooks: INotebookTracker | null;
  /** Null where the application has no status bar. */
  statusBar: IStatusBar | null;
  /** Shows the sidebar's panel. */
  show: () => void;
}

/** Adds badges, the alert and the status bar's item; returns what jumps to cells. */
export function addMarks(options: IMarksOptions): Jumper {
  const { model, settings, trans, notebooks, statusBar, show } = options;
  if (notebooks !== null) {
    const report = (serial: number) => {
      show();
      model.send({ type: 'show_cell', serial });
    };
    new Badges({ tracker: notebooks, model, settings, show: report });
  }
  new Alert({ model, settings, trans, show });
  if (statusBar !== null) {
    const { node } = new StatusItem({ model, settings, trans, show });
    statusBar.registerStatusItem('nbmem:memory', {
      item: new Widget({ node }),
      align: 'left',
      rank: 90
    });
  }
  return addJumper(options);
}

function addJumper({ app, model, follower, trans, notebooks }: IMarksOptions): Jumper {
  const followed = () => follower.widget;
  const jumper = new Jumper({ app, tracker: notebooks, model, followed, version: VERSION, trans });
  let failed = '';
  jumper.said.connect((_, sentence) => {
    const notice = model.notice;
    if (sentence !== '') {
      model.heard({ type: 'trouble', protocol: PROTOCOL, sentence });
    } else if (notice?.kind === 'trouble' && notice.sentence === failed) {
      model.dismiss();
    }
    failed = sentence;
  });
  return jumper;
}
