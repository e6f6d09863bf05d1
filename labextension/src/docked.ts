import { IRenderMimeRegistry, MimeModel } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { ISignal, Signal } from '@lumino/signaling';
import { Panel } from '@lumino/widgets';
import { FAILED, lookAt, Sight } from './drawing';
import { Says } from './says';
import { WIDGET_VIEW } from './tokens';

/** Milliseconds in which parts of a panel that was drawn may still turn out to have failed. */
const SETTLING = 3_000;

/** What stands in the panel's place: `late` as long as its widgets are not there, or `lost`. */
export type DockedWords = Record<'late' | 'lost', string>;

/** The kernel's own panel, drawn by the notebook's rendermime; one at a time. */
export class Docked extends Panel {
  constructor(private _words: DockedWords) {
    super();
    this.addClass('nbmem-Docked');
    this._says = new Says('nbmem-Lost', 'status');
    this.addWidget(this._says);
  }

  /** How the widget that is to be shown looks by now. */
  get sight(): Sight {
    return this._sight;
  }

  /** It was drawn, or cannot be, or some of its parts cannot. */
  get settled(): ISignal<this, 'drawn' | 'lost'> {
    return this._settled;
  }

  /** Shows the widget of a kernel; nothing happens where it is shown already. */
  dock(rendermime: IRenderMimeRegistry, kernelId: string, modelId: string): void {
    const key = `${kernelId}/${modelId}`;
    if (this._key === key && this._rendermime === rendermime) {
      return;
    }
    this.clear();
    this._key = key;
    this._rendermime = rendermime;
    const view = { model_id: modelId, version_major: 2, version_minor: 0 };
    const renderer = rendermime.createRenderer(WIDGET_VIEW);
    void this._add(renderer, new MimeModel({ data: { [WIDGET_VIEW]: view }, trusted: true }));
  }

  /** Takes the widget away. */
  clear(): void {
    this._key = '';
    this._rendermime = null;
    this._stopWatching();
    delete this.node.dataset.settled;
    this._sight = 'none';
    this._says.draw('', null);
    for (const widget of this.widgets.filter(each => each !== this._says)) {
      widget.dispose();
    }
  }

  dispose(): void {
    this._stopWatching();
    Signal.clearData(this);
    super.dispose();
  }

  private async _add(renderer: IRenderMime.IRenderer, model: MimeModel): Promise<void> {
    this.addWidget(renderer);
    let failed = false;
    try {
      await renderer.renderModel(model);
    } catch (reason) {
      console.warn('nbmem: the panel could not be drawn.', reason);
      failed = true;
    }
    if (!renderer.isDisposed) {
      // widgets may come later: a kernel that is busy does not tell of them yet
      this._watch(renderer, false, () => this._judge(renderer, failed));
      this._judge(renderer, failed);
    }
  }

  private _judge(renderer: IRenderMime.IRenderer, failed: boolean): void {
    const sight = failed ? 'lost' : lookAt(renderer.node);
    if (sight === this._sight) {
      return;
    }
    this._sight = sight;
    renderer.setHidden(sight !== 'drawn');
    this._says.draw(sight === 'drawn' ? '' : this._words[sight], null, sight === 'late');
    if (sight === 'lost') {
      this._settle('lost');
    } else if (sight === 'drawn') {
      this._lookInside(renderer);
    }
  }

  /** A page that came while the kernel built the panel may lack parts of it. */
  private _lookInside(renderer: IRenderMime.IRenderer): void {
    const look = () => {
      if (renderer.node.getElementsByClassName(FAILED).length > 0) {
        this._settle('lost');
      }
    };
    this._watch(renderer, true, look);
    this._settling = setTimeout(() => this._settle('drawn'), SETTLING);
    look();
  }

  private _settle(how: 'drawn' | 'lost'): void {
    this._stopWatching();
    this.node.dataset.settled = how;
    this._settled.emit(how);
  }

  private _watch(renderer: IRenderMime.IRenderer, subtree: boolean, look: () => void): void {
    this._stopWatching();
    this._watching = new MutationObserver(look);
    const options = { childList: true, subtree, attributeFilter: subtree ? undefined : ['class'] };
    this._watching.observe(renderer.node, options);
  }

  private _stopWatching(): void {
    this._watching?.disconnect();
    clearTimeout(this._settling);
  }

  private _key = '';
  private _rendermime: IRenderMimeRegistry | null = null;
  private _says: Says;
  private _sight: Sight = 'none';
  private _watching: MutationObserver | null = null;
  private _settling: ReturnType<typeof setTimeout> | undefined;
  private _settled = new Signal<this, 'drawn' | 'lost'>(this);
}

/** What a kernel last showed, as sanitized HTML: nothing in it can run. */
export class Copy extends Panel {
  constructor() {
    super();
    this.addClass('nbmem-Copy');
  }

  /** Shows a copy, or nothing. */
  draw(rendermime: IRenderMimeRegistry, html: string): void {
    if (html === this._html) {
      return;
    }
    this._html = html;
    for (const widget of [...this.widgets]) {
      widget.dispose();
    }
    if (html !== '') {
      const renderer = rendermime.createRenderer('text/html');
      this.addWidget(renderer);
      void renderer.renderModel(new MimeModel({ data: { 'text/html': html }, trusted: false }));
    }
  }

  private _html = '';
}
