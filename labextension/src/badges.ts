import type { Cell } from '@jupyterlab/cells';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

import { Badge } from './badge';
import type { IMemoryModel } from './model';
import type { ISettings } from './settings';
import type { IMark } from './tokens';

/** Marks by the id of their cell. */
export type Marks = ReadonlyMap<string, IMark>;

const NONE: Marks = new Map();

/** The states of a kernel in which no cell is measured. */
const WITHOUT = new Set(['not-loaded', 'no-package', 'no-torch', 'mismatch', 'past']);

/** What the badges need. */
export interface IBadgesOptions {
  tracker: INotebookTracker;
  model: IMemoryModel;
  settings: ISettings;
  /** Opens the panel at the report with this serial. */
  show: (serial: number) => void;
}

/**
 * Badges in every open notebook. The model tells the marks of the followed kernel only; notebooks
 * of other kernels keep what was told last.
 */
export class Badges {
  constructor(private _options: IBadgesOptions) {
    const { tracker, model, settings } = _options;
    tracker.forEach(panel => this._add(panel));
    tracker.widgetAdded.connect(this._onAdded, this);
    model.marksChanged.connect(this._onMarks, this);
    model.changed.connect(this._onState, this);
    settings.changed.connect(this._drawAll, this);
    this._onMarks();
  }

  /** Takes all badges away. */
  dispose(): void {
    const { tracker, model, settings } = this._options;
    tracker.widgetAdded.disconnect(this._onAdded, this);
    model.marksChanged.disconnect(this._onMarks, this);
    model.changed.disconnect(this._onState, this);
    settings.changed.disconnect(this._drawAll, this);
    this._notebooks.forEach(notebook => notebook.dispose());
    this._notebooks.clear();
  }

  private _onAdded(_: INotebookTracker, panel: NotebookPanel): void {
    this._add(panel);
  }

  private _add(panel: NotebookPanel): void {
    const notebook = new NotebookBadges(panel, this._options.show);
    this._notebooks.set(panel, notebook);
    const session = panel.sessionContext;
    session.kernelChanged.connect(() => this._draw(panel));
    session.statusChanged.connect((_, status) => {
      if (status === 'restarting' || status === 'autorestarting') {
        this._told.delete(kernelOf(panel) ?? '');
        this._draw(panel);
      }
    });
    panel.disposed.connect(() => this._remove(panel));
    this._draw(panel);
  }

  private _remove(panel: NotebookPanel): void {
    this._notebooks.get(panel)?.dispose();
    this._notebooks.delete(panel);
    const used = new Set([...this._notebooks.keys()].map(kernelOf));
    for (const kernel of this._told.keys()) {
      if (!used.has(kernel)) {
        this._told.delete(kernel);
      }
    }
  }

  private _onMarks(): void {
    const { kernelId, marks } = this._options.model;
    if (kernelId === null) {
      return;
    }
    this._told.set(kernelId, new Map(marks)); // the model's own map is another kernel's soon
    for (const panel of this._notebooks.keys()) {
      if (kernelOf(panel) === kernelId) {
        this._draw(panel);
      }
    }
  }

  /** A kernel that lost nbmem while another notebook was looked at has no marks any more. */
  private _onState(): void {
    const { kernelId, marks, state } = this._options.model;
    const told = this._told.get(kernelId ?? '');
    if (WITHOUT.has(state.kind) && marks.size === 0 && told !== undefined && told.size > 0) {
      this._onMarks();
    }
  }

  private _drawAll(): void {
    this._notebooks.forEach((_, panel) => this._draw(panel));
  }

  private _draw(panel: NotebookPanel): void {
    const told = this._told.get(kernelOf(panel) ?? '') ?? NONE;
    this._notebooks.get(panel)?.draw(this._options.settings.badges ? told : NONE);
  }

  private _notebooks = new Map<NotebookPanel, NotebookBadges>();
  /** The marks told last, by the id of their kernel. */
  private _told = new Map<string, Marks>();
}

/** The badges of one notebook; they stay with their cells, by the cells' ids. */
class NotebookBadges {
  constructor(
    private _panel: NotebookPanel,
    private _show: (serial: number) => void
  ) {
    _panel.content.modelChanged.connect(this._onModel, this);
    this._onModel();
  }

  /** Shows these marks and no others; what did not change is not touched. */
  draw(marks: Marks): void {
    this._marks = marks;
    for (const [id, { cell, badge }] of this._drawn) {
      if (!marks.has(id) || this._cells.get(id) !== cell) {
        badge.node.remove();
        this._drawn.delete(id);
      }
    }
    for (const [id, mark] of marks) {
      const cell = this._cells.get(id);
      const drawn = this._drawn.get(id);
      if (drawn !== undefined) {
        drawn.badge.mark = mark;
      } else if (cell !== undefined) {
        this._put(id, cell, mark);
      }
    }
  }

  dispose(): void {
    this.draw(NONE);
  }

  private _put(id: string, cell: Cell, mark: IMark): void {
    const badge = new Badge(mark, this._show);
    this._drawn.set(id, { cell, badge });
    // A cell that was never scrolled to has no parts yet.
    void cell.ready.then(() => {
      if (this._drawn.get(id)?.badge === badge && !cell.isDisposed) {
        inputOf(cell)?.append(badge.node);
      }
    });
  }

  private _onModel(): void {
    this._panel.content.model?.cells.changed.connect(this._onCells, this);
    this._onCells();
  }

  /** Cells come by the hundred when a notebook opens: they are looked through once. */
  private _onCells(): void {
    if (this._waits) {
      return;
    }
    this._waits = true;
    void Promise.resolve().then(() => {
      this._waits = false;
      if (!this._panel.isDisposed) {
        this._cells = new Map(this._panel.content.widgets.map(cell => [cell.model.id, cell]));
        this.draw(this._marks);
      }
    });
  }

  private _waits = false;

  private _cells = new Map<string, Cell>();
  private _drawn = new Map<string, { cell: Cell; badge: Badge }>();
  private _marks: Marks = NONE;
}

/** The frame of a cell's input. While the cell is out of sight its node does not have it. */
function inputOf(cell: Cell): HTMLElement | null {
  for (const part of cell.layout ?? []) {
    if (part.hasClass('jp-Cell-inputWrapper')) {
      return part.node;
    }
  }
  return null;
}

function kernelOf(panel: NotebookPanel): string | null {
  return panel.sessionContext.session?.kernel?.id ?? null;
}
