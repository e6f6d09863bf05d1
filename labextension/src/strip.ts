import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import type { MemoryModel } from './model';

/** Milliseconds after which figures of a running cell are told to be old. */
const OLD = 1_500;

/** Seconds after a cell's end in which what the kernel tells of the present is still of that cell. */
const SETTLING = 3;

/**
 * Two lines that say what runs, or what ran last; their place is kept, so that nothing jumps.
 *
 * While a cell runs one timer lets the age of the figures go on.
 */
export class Strip extends Widget {
  constructor(
    private _model: MemoryModel,
    private _trans: TranslationBundle
  ) {
    super();
    this.addClass('nbmem-Strip');
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', _trans.__('Running cell'));
    const line = this.node.appendChild(document.createElement('div'));
    line.className = 'nbmem-Strip-line';
    this._dot = line.appendChild(document.createElement('span'));
    this._dot.className = 'nbmem-Strip-dot';
    this._dot.setAttribute('aria-hidden', 'true');
    this._title = line.appendChild(document.createElement('span'));
    this._title.className = 'nbmem-Strip-title';
    this._age = line.appendChild(document.createElement('span'));
    this._age.className = 'nbmem-Strip-age';
    const below = this.node.appendChild(document.createElement('div'));
    below.className = 'nbmem-Strip-text';
    this._text = below.appendChild(document.createElement('span'));
  }

  /** Draws what the model has now; without `moving` no timer goes on. */
  draw(moving: boolean): void {
    const { live, lastLive, present } = this._model;
    const passed = (present?.taken_at ?? 0) - (lastLive?.taken_at ?? 0);
    const shown = live ?? (passed < SETTLING ? lastLive : null);
    this.setHidden(shown === null && present === null);
    const title = shown?.title ?? this._trans.__('No cell runs');
    write(this._title, title);
    this._title.title = title;
    write(this._text, shown?.text ?? (present?.hint || present?.tip) ?? '');
    this.node.dataset.running = String(live !== null);
    this._dot.textContent = live === null ? '○' : '●';
    this._drawAge();
    this._tick(moving && live !== null);
  }

  dispose(): void {
    this._tick(false);
    super.dispose();
  }

  private _drawAge(): void {
    const age = Date.now() - this._model.liveAt;
    const old = this._model.live !== null && age > OLD;
    const seconds = Math.floor(age / 1000);
    write(this._age, old ? this._trans.__('figures of %1 s ago', seconds) : '');
  }

  private _tick(on: boolean): void {
    if (on && this._timer === null) {
      this._timer = window.setInterval(() => this._drawAge(), 1_000);
    } else if (!on && this._timer !== null) {
      window.clearInterval(this._timer);
      this._timer = null;
    }
  }

  private _dot: HTMLElement;
  private _title: HTMLElement;
  private _text: HTMLElement;
  private _age: HTMLElement;
  private _timer: number | null = null;
}

function write(node: HTMLElement, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}
