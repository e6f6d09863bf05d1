import { IRenderMimeRegistry, MimeModel } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Panel } from '@lumino/widgets';
import { WIDGET_VIEW } from './tokens';

/** The kernel's own panel, drawn by the notebook's rendermime; one at a time. */
export class Docked extends Panel {
  constructor() {
    super();
    this.addClass('nbmem-Docked');
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
    this._add(renderer, new MimeModel({ data: { [WIDGET_VIEW]: view }, trusted: true }));
  }

  /** Takes the widget away. */
  clear(): void {
    this._key = '';
    this._rendermime = null;
    for (const widget of [...this.widgets]) {
      widget.dispose();
    }
  }

  private _add(renderer: IRenderMime.IRenderer, model: MimeModel): void {
    this.addWidget(renderer);
    renderer.renderModel(model).catch(reason => {
      this._key = '';
      renderer.node.textContent = String(reason);
    });
  }

  private _key = '';
  private _rendermime: IRenderMimeRegistry | null = null;
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
