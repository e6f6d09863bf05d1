import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ISignal, Signal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';

import type { IMemoryModel } from './model';
import { findCell, readDataset, readPlace } from './places';
import { ICellPlace, JUMP_EVENT, JUMP_FLAG } from './tokens';

/** The class of elements that jump when they are clicked. */
const LINK = 'nbmem-jump';

/** The class that a cell has for a moment after a jump. */
const MARKED = 'nbmem-jumped';

/** Milliseconds that a cell stays marked; the animation of `marks.css` is as long. */
const MOMENT = 2000;

/** What a jumper needs. */
export interface IJumperOptions {
  app: JupyterFrontEnd;
  /** Null where the application has no notebooks. */
  tracker: INotebookTracker | null;
  model: IMemoryModel;
  /** Returns the notebook or console that the panel follows. */
  followed: () => Widget | null;
  /** The extension's version, which the page's flag carries. */
  version: string;
  trans: TranslationBundle;
}

/** Takes the reader to a cell: for clicks and events of any panel on the page, while it lives. */
export class Jumper {
  constructor(private _options: IJumperOptions) {
    document.body.dataset[JUMP_FLAG] = _options.version;
    document.addEventListener(JUMP_EVENT, this._onEvent);
    document.addEventListener('click', this._onClick);
  }

  /** Says after each jump why it failed, or an empty string. */
  get said(): ISignal<this, string> {
    return this._said;
  }

  /** Stops listening; jumps are offered no longer. */
  dispose(): void {
    delete document.body.dataset[JUMP_FLAG];
    document.removeEventListener(JUMP_EVENT, this._onEvent);
    document.removeEventListener('click', this._onClick);
    Signal.clearData(this);
  }

  /**
   * Shows a cell and marks it for a moment. `path` leads from the element that asked up to the
   * page: the notebook on it is looked through first. Returns an empty string, or the sentence
   * that was shown where the cell is not found.
   */
  async jumpTo(place: ICellPlace, path: readonly EventTarget[] = []): Promise<string> {
    const panels = this._candidates(path);
    for (const panel of panels) {
      const index = find(panel, place);
      if (index >= 0) {
        await this._show(panel, index);
        return this._say('');
      }
    }
    return this._say(this._missing(place, panels));
  }

  private _say(sentence: string): string {
    Notification.dismiss(this._shown); // one at a time: a second click would only pile them up
    if (sentence !== '') {
      this._shown = Notification.warning(sentence, { autoClose: 6000 });
    }
    this._said.emit(sentence);
    return sentence;
  }

  /** The notebook on the path or else the followed one, then all others of the same kernel. */
  private _candidates(path: readonly EventTarget[]): NotebookPanel[] {
    const { tracker, model, followed } = this._options;
    const open: NotebookPanel[] = [];
    tracker?.forEach(panel => open.push(panel));
    const around = open.filter(panel => path.includes(panel.node));
    const first = around.length > 0 ? around : open.filter(panel => panel === followed());
    const kernel = around.length > 0 ? kernelOf(around[0]) : model.kernelId;
    const same = open.filter(panel => kernel !== null && kernelOf(panel) === kernel);
    return [...new Set([...first, ...same])];
  }

  private async _show(panel: NotebookPanel, index: number): Promise<void> {
    const notebook = panel.content;
    const cell = notebook.widgets[index];
    this._options.app.shell.activateById(panel.id);
    notebook.deselectAll();
    notebook.activeCellIndex = index;
    NotebookActions.expandParent(cell, notebook);
    try {
      // Ends late where JupyterLab has not drawn so far down yet: it draws in idle moments.
      await notebook.scrollToItem(index, 'center');
    } catch {
      return; // a newer jump took over the scrolling
    }
    mark(cell.node);
  }

  private _missing(place: ICellPlace, panels: NotebookPanel[]): string {
    const { trans, followed } = this._options;
    const cell = place.number === null ? trans.__('This cell') : trans.__('Cell [%1]', place.number);
    const widget = followed();
    const console = widget !== null && !this._options.tracker?.has(widget);
    if (console && panels.every(panel => kernelOf(panel) === this._options.model.kernelId)) {
      return trans.__('%1 ran in a console, and only cells of a notebook can be shown.', cell);
    }
    if (panels.length > 0) {
      return trans.__('%1 is no longer in %2.', cell, panels[0].title.label);
    }
    return trans.__('%1 is in no open notebook: open the one that ran it.', cell);
  }

  private _onEvent = (event: Event): void => {
    const place = readPlace((event as CustomEvent<unknown>).detail);
    if (place !== null) {
      void this.jumpTo(place, event.composedPath());
    }
  };

  private _onClick = (event: MouseEvent): void => {
    const link = event.composedPath().find(isLink);
    const place = link === undefined ? null : readDataset(link.dataset);
    if (place !== null) {
      event.preventDefault();
      void this.jumpTo(place, event.composedPath());
    }
  };

  /** Of the warning shown last. */
  private _shown = 'nbmem';
  private _said = new Signal<this, string>(this);
}

function isLink(target: EventTarget): target is HTMLElement {
  return target instanceof HTMLElement && target.classList.contains(LINK);
}

function kernelOf(panel: NotebookPanel): string | null {
  return panel.sessionContext.session?.kernel?.id ?? null;
}

function find(panel: NotebookPanel, place: ICellPlace): number {
  const model = panel.content.model;
  if (model === null) {
    return -1;
  }
  const passing = model.nbformat === 4 && model.nbformatMinor < 5;
  return findCell(model.cells, place, passing);
}

const moments = new WeakMap<HTMLElement, number>();

/** Marks a cell for a moment; a cell that is marked already begins anew. */
function mark(node: HTMLElement): void {
  window.clearTimeout(moments.get(node));
  node.classList.remove(MARKED);
  void node.offsetWidth; // or the browser joins both changes and the animation goes on
  node.classList.add(MARKED);
  moments.set(
    node,
    window.setTimeout(() => node.classList.remove(MARKED), MOMENT)
  );
}
