import type { TranslationBundle } from '@jupyterlab/translation';
import { LabIcon, launchIcon, refreshIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';
import type { PanelState } from './states';
import type { IFollowed } from './tracker';

/** What the header's buttons do. */
export interface IHeaderOptions {
  trans: TranslationBundle;
  refresh: () => void;
  openInMain: (() => void) | null;
}

/** So many last characters of a name are never cut: `-v2.ipynb`. */
const END = 9;

/** Whose memory is shown: notebook, kernel, status; and the panel's buttons. */
export class Header extends Widget {
  constructor(options: IHeaderOptions) {
    super();
    const { trans } = options;
    this._trans = trans;
    this.addClass('nbmem-Header');
    this._whose = this.node.appendChild(document.createElement('div'));
    this._whose.className = 'nbmem-Header-whose';
    this._whose.setAttribute('role', 'heading');
    this._whose.setAttribute('aria-level', '2');
    this._name = this._addText('nbmem-Header-name');
    this._end = this._addText('nbmem-Header-end');
    this._kernel = this._addText('nbmem-Header-kernel');
    this._status = this._addText('nbmem-Header-status');
    this._refresh = this._addButton(refreshIcon, trans.__('Refresh'), options.refresh);
    if (options.openInMain !== null) {
      this._addButton(launchIcon, trans.__('Open in main area'), options.openInMain);
    }
  }

  /** Draws the header for a document. */
  draw(followed: IFollowed | null, state: PanelState, running: boolean): void {
    const context = followed?.context ?? null;
    const name = followed?.widget.title.label ?? this._trans.__('GPU memory');
    const kernel = context?.session?.kernel?.name ?? '';
    // What the kernel answers beside a running cell makes JupyterLab call it idle.
    const status = running ? 'busy' : (context?.kernelDisplayStatus ?? '');
    const letters = [...name];
    const cut = Math.max(letters.length - END, 0);
    write(this._name, letters.slice(0, cut).join(''));
    write(this._end, letters.slice(cut).join(''));
    write(this._kernel, kernel && ` · ${kernel}`);
    write(this._status, kernel && ` · ${status}`);
    const whole = [name, kernel, kernel && status].filter(Boolean).join(' · ');
    this._whose.title = whole;
    this._whose.setAttribute('aria-label', whole);
    this._refresh.disabled = state.kind === 'no-notebook' || state.kind === 'no-kernel';
  }

  private _addText(name: string): HTMLElement {
    const text = this._whose.appendChild(document.createElement('span'));
    text.className = name;
    return text;
  }

  private _addButton(icon: LabIcon, label: string, press: () => void): HTMLButtonElement {
    const button = this.node.appendChild(document.createElement('button'));
    button.type = 'button';
    button.className = 'nbmem-Header-button';
    button.title = label;
    button.setAttribute('aria-label', label);
    icon.element({ container: button, elementPosition: 'center', width: '16px', height: '16px' });
    button.addEventListener('click', press);
    return button;
  }

  private _trans: TranslationBundle;
  private _whose: HTMLElement;
  private _name: HTMLElement;
  private _end: HTMLElement;
  private _kernel: HTMLElement;
  private _status: HTMLElement;
  private _refresh: HTMLButtonElement;
}

function write(node: HTMLElement, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}
