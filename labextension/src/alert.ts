import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import { Crossings } from './crossings';
import type { IMemoryModel } from './model';
import type { ISettings } from './settings';

/** Where a reloaded page finds what it told before. */
const STORED = 'nbmem:alerted';

/** What the alert needs. */
export interface IAlertOptions {
  model: IMemoryModel;
  settings: ISettings;
  trans: TranslationBundle;
  /** Opens the panel. */
  show: () => void;
}

/** Tells once when a device of the followed kernel passes the share that the settings name. */
export class Alert {
  constructor(private _options: IAlertOptions) {
    this._crossings = new Crossings(stored());
    _options.model.changed.connect(this._look, this);
    _options.settings.changed.connect(this._look, this);
  }

  /** Stops looking. */
  dispose(): void {
    this._options.model.changed.disconnect(this._look, this);
    this._options.settings.changed.disconnect(this._look, this);
  }

  private _look(): void {
    const { model, settings } = this._options;
    if (model.present === null || model.kernelId === null) {
      return; // which device it is comes with the present
    }
    const newest = model.live?.running ? model.live : model.present;
    const { device } = model.present;
    const key = `${model.kernelId} ${device}`;
    if (this._crossings.passes(key, newest.share, settings.alertShare)) {
      this._tell(device, newest.status, newest.share as number);
    }
    this._store();
  }

  private _tell(device: string, status: string, share: number): void {
    const { trans, show } = this._options;
    const percent = share < 0.01 ? trans.__('under 1') : Math.round(share * 100);
    Notification.warning(trans.__('%1 holds %2: %3 %.', device, status, percent), {
      autoClose: false,
      actions: [{ label: trans.__('Show what holds it'), callback: show }]
    });
  }

  private _store(): void {
    const above = JSON.stringify(this._crossings.above);
    if (above === this._stored) {
      return;
    }
    this._stored = above;
    try {
      window.sessionStorage.setItem(STORED, above);
    } catch {
      return; // storage is off or full: a reload tells once more
    }
  }

  private _crossings: Crossings;
  private _stored = '';
}

function stored(): string[] {
  try {
    const keys: unknown = JSON.parse(window.sessionStorage.getItem(STORED) ?? '[]');
    return Array.isArray(keys) ? keys.filter(key => typeof key === 'string') : [];
  } catch {
    return []; // storage is off, or holds something else: told once more
  }
}
