import type { TranslationBundle } from '@jupyterlab/translation';

import type { IMemoryModel } from './model';
import type { ISettings } from './settings';
import type { ILive } from './tokens';

/** What the status bar shows; null where it shows nothing. */
export interface IStatusLook {
  text: string;
  /** Of the device, 0 to 1; null where it is not known: then there is no bar. */
  share: number | null;
  tip: string;
}

/** Returns what the status bar shows of a kernel: the cell that runs first, then the present. */
export function statusOf(
  model: Pick<IMemoryModel, 'kernelId' | 'live' | 'lastLive' | 'present'>
): IStatusLook | null {
  const { kernelId, present } = model;
  const live = newestOf(model);
  const newest = live ?? present;
  if (kernelId === null || newest === null || newest.status === '') {
    return null;
  }
  const share = newest.share === null ? null : Math.min(Math.max(newest.share, 0), 1);
  return {
    text: newest.status,
    share,
    tip: live !== null ? `${live.title} · ${live.text}` : (present?.tip ?? newest.status)
  };
}

/** Figures of a cell that runs, or that is over and not yet part of the present. */
function newestOf(model: Pick<IMemoryModel, 'live' | 'lastLive' | 'present'>): ILive | null {
  const { live, lastLive, present } = model;
  if (live?.running === true && live.status !== '') {
    return live;
  }
  const isNewer = (lastLive?.taken_at ?? 0) > (present?.taken_at ?? Infinity);
  return lastLive && isNewer && lastLive.status !== '' ? lastLive : null;
}

/** What the status-bar item needs. */
export interface IStatusOptions {
  model: IMemoryModel;
  settings: ISettings;
  trans: TranslationBundle;
  /** Opens the panel. */
  show: () => void;
}

/** The item of the status bar: a tiny bar and the device's bytes; a button that opens the panel. */
export class StatusItem {
  constructor(private _options: IStatusOptions) {
    this.node.className = 'nbmem-status';
    this._button.type = 'button';
    this._bar.className = 'nbmem-status-bar';
    this._bar.append(this._fill);
    this._text.className = 'nbmem-status-text';
    this._button.append(this._bar, this._text);
    this._button.addEventListener('click', _options.show);
    this.node.append(this._button);
    _options.model.changed.connect(this._draw, this);
    _options.settings.changed.connect(this._draw, this);
    this._draw();
  }

  /** What a widget of the status bar is made of. */
  readonly node = document.createElement('div');

  /** Stops following. */
  dispose(): void {
    this._options.model.changed.disconnect(this._draw, this);
    this._options.settings.changed.disconnect(this._draw, this);
  }

  private _draw(): void {
    const { model, settings, trans } = this._options;
    const look = settings.statusBar ? statusOf(model) : null;
    this.node.hidden = look === null;
    if (look === null) {
      return;
    }
    this._text.textContent = look.text;
    this._button.title = look.tip;
    this._button.setAttribute('aria-label', trans.__('Device memory: %1', look.tip));
    this._bar.hidden = look.share === null;
    this._fill.style.width = `${((look.share ?? 0) * 100).toFixed(1)}%`;
    this._fill.className = (look.share ?? 0) >= 0.8 ? 'nbmem-status-high' : '';
  }

  private _button = document.createElement('button');
  private _bar = document.createElement('span');
  private _fill = document.createElement('span');
  private _text = document.createElement('span');
}
