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

/** Whose memory is shown: notebook, kernel, status; and the panel's buttons. */
export class Header extends Widget {
  constructor(options: IHeaderOptions) {
    super();
    const { trans } = options;
    this._trans = trans;
    this.addClass('nbmem-Header');
    this._whose = this.node.appendChild(document.createElement('div'));
    this._whose.className = 'nbmem-Header-whose';
    this._name = this._whose.appendChild(document.createElement('span'));
    this._name.className = 'nbmem-Header-name';
    this._rest = this._whose.appendChild(document.createElement('span'));
    this._rest.className = 'nbmem-Header-rest';
    this._refresh = this._addButton(refreshIcon, trans.__('Refresh'), options.refresh);
    if (options.openInMain !== null) {
      this._addButton(launchIcon, trans.__('Open in main area'), options.openInMain);
    }
  }

  /** Draws the header for a document. */
  draw(followed: IFollowed | null, state: PanelState): void {
    const context = followed?.context ?? null;
    const name = followed?.widget.title.label ?? this._trans.__('GPU memory');
    const kernel = context?.session?.kernel?.name ?? '';
    const status = context?.kernelDisplayStatus ?? '';
    const rest = [kernel, kernel && status].filter(Boolean);
    write(this._name, name);
    write(this._rest, rest.map(each => ` · ${each}`).join(''));
    this._whose.title = [name, ...rest].join(' · ');
    this._refresh.disabled = state.kind === 'no-notebook' || state.kind === 'no-kernel';
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
  private _rest: HTMLElement;
  private _refresh: HTMLButtonElement;
}

function write(node: HTMLElement, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}
