import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { Panel } from '@lumino/widgets';
import { Copy, Docked } from './docked';
import { Header } from './header';
import { memoryIcon } from './icons';
import type { MemoryModel } from './model';
import { Says } from './says';
import { Act, sayNotice, sayPast, sayState, sayUndrawn } from './sentences';
import { Strip } from './strip';
import type { Follower } from './tracker';

/** What a panel needs. */
export interface ISidePanelOptions {
  model: MemoryModel;
  follower: Follower;
  /** For the past of a kernel whose document is closed. */
  rendermime: IRenderMimeRegistry;
  trans: TranslationBundle;
  /** What the buttons below sentences do. */
  act: (run: Act) => void;
  /** Opens the panel in the main area; null where there is no room or where it is there. */
  openInMain: (() => void) | null;
}

/**
 * The panel: whose memory, what runs now, and the kernel's own widget or why there is none.
 *
 * It draws only while it can be seen.
 */
export class SidePanel extends Panel {
  constructor(private _options: ISidePanelOptions) {
    super();
    const { model, follower, trans, openInMain } = _options;
    this.addClass('nbmem-SidePanel');
    this.title.icon = memoryIcon;
    this.title.caption = trans.__('GPU memory');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('GPU memory'));
    this._docked = new Docked(sayUndrawn(trans));
    this._docked.settled.connect((_, how) => model.settled(how));
    this._header = new Header({ trans, refresh: () => this._refresh(), openInMain });
    this._strip = new Strip(model, trans);
    this._notice = new Says('nbmem-Notice', 'alert');
    this._state = new Says('nbmem-State', 'status');
    this._pastLine = new Says('nbmem-PastLine', 'status');
    const parts = [this._header, this._strip, this._notice, this._state];
    [...parts, this._docked, this._pastLine, this._copy].forEach(part => this.addWidget(part));
    model.changed.connect(this._draw, this);
    follower.retold.connect(this._draw, this);
  }

  dispose(): void {
    if (!this.isDisposed) {
      this._options.model.changed.disconnect(this._draw, this);
      this._options.follower.retold.disconnect(this._draw, this);
    }
    super.dispose();
  }

  protected onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._draw();
  }

  protected onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._draw();
  }

  protected onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._strip.draw(false);
  }

  private _refresh(): void {
    const { model } = this._options;
    if (this._docked.sight === 'late' || this._docked.sight === 'lost') {
      model.rebuild();
    } else {
      model.refresh();
    }
  }

  private _draw(): void {
    if (!this.isVisible) {
      this._strip.draw(false);
      return;
    }
    const { model, follower } = this._options;
    this._header.draw(follower.current, model.state, model.live !== null);
    this._strip.draw(true);
    this._drawWords();
    this._drawDocked();
    this._drawCopy();
  }

  private _drawWords(): void {
    const { model, follower, trans, act } = this._options;
    const name = follower.widget?.title.label ?? '';
    const saying = sayState(model.state, name, trans);
    this._state.draw(
      saying?.sentence ?? '',
      saying?.act && { ...saying.act, press: () => saying.act && act(saying.act.run) },
      saying?.act?.busy || model.state.kind === 'starting'
    );
    const notice = model.notice === null ? '' : sayNotice(model.notice, trans);
    this._notice.draw(notice, {
      label: trans.__('Dismiss'),
      busy: false,
      press: () => model.dismiss()
    });
  }

  private _drawDocked(): void {
    const { model, follower } = this._options;
    const { state, kernelId } = model;
    const rendermime = follower.carrier?.rendermime;
    if (state.kind === 'ready' && kernelId !== null && rendermime !== undefined) {
      this._docked.dock(rendermime, kernelId, state.modelId);
    } else {
      this._docked.clear();
    }
    this._docked.setHidden(state.kind !== 'ready');
  }

  /** The past; and where the page draws no widgets, the present as text. */
  private _drawCopy(): void {
    const { model, follower, rendermime, trans } = this._options;
    const { past, state, present } = model;
    const plain = state.kind === 'no-widgets' ? present : null;
    const copy = past?.state.copy ?? plain?.copy ?? '';
    this._pastLine.draw(past === null ? '' : sayPast(past, trans), null);
    this._copy.draw(follower.current?.rendermime ?? rendermime, copy);
    this._copy.setHidden(copy === '');
  }

  private _header: Header;
  private _strip: Strip;
  private _notice: Says;
  private _state: Says;
  private _pastLine: Says;
  private _docked: Docked;
  private _copy = new Copy();
}
