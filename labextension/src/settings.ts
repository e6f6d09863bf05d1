import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ISignal, Signal } from '@lumino/signaling';

/** What the user chose in the settings editor, read-only and with its types. */
export interface ISettings {
  /** Badges beside the prompts of measured cells. */
  readonly badges: boolean;
  /** The device's bytes in the status bar. */
  readonly statusBar: boolean;
  /** Of a device's capacity, 0 to 1; 0 is no alert. */
  readonly alertShare: number;
  /** Some setting has another value now. */
  readonly changed: ISignal<ISettings, void>;
}

/** The settings of `schema/plugin.json`; its defaults where there is no settings editor. */
export class Settings implements ISettings {
  badges = true;
  statusBar = true;
  alertShare = 0.9;

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Follows the registry's settings from now on. */
  async load(registry: ISettingRegistry, plugin: string): Promise<void> {
    const found = await registry.load(plugin);
    this._read(found);
    found.changed.connect(() => this._read(found));
  }

  private _read(found: ISettingRegistry.ISettings): void {
    this.badges = found.composite.badges !== false;
    this.statusBar = found.composite.statusBar !== false;
    const share = found.composite.alertShare;
    this.alertShare = typeof share === 'number' ? Math.min(Math.max(share, 0), 1) : 0.9;
    this._changed.emit();
  }

  private _changed = new Signal<this, void>(this);
}
