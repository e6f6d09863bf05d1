import { IRenderMimeRegistry, MimeModel } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Panel } from '@lumino/widgets';
import { Says } from './says';
import { WIDGET_VIEW } from './tokens';

/** The kernel's own panel, drawn by the notebook's rendermime; one at a time. */
export class Docked extends Panel {
  /** `lost`: the sentence where the page cannot draw what the kernel names. */
  constructor(private _lost: string) {
    super();
    this.addClass('nbmem-Docked');
  }

  /** Whether the page could not draw what it was to show. */
  get isLost(): boolean {
    return this.widgets.some(widget => widget instanceof Says);
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
    for (const widget of [...this.widgets]) {
      widget.dispose();
    }
  }

  private async _add(renderer: IRenderMime.IRenderer, model: MimeModel): Promise<void> {
    this.addWidget(renderer);
    try {
      await renderer.renderModel(model);
    } catch (reason) {
      console.warn('nbmem: the panel could not be drawn.', reason);
      renderer.node.textContent = String(reason);
    }
    if (!renderer.isDisposed && isBare(renderer)) {
      renderer.dispose();
      const says = new Says('nbmem-Lost', 'alert');
      says.draw(this._lost, null);
      this.addWidget(says);
    }
  }

  private _key = '';
  private _rendermime: IRenderMimeRegistry | null = null;
}

/** Whether a renderer of widgets shows words in the place of a widget: that there is none. */
function isBare(renderer: IRenderMime.IRenderer): boolean {
  return renderer.node.childElementCount === 0 && renderer.node.textContent !== '';
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
