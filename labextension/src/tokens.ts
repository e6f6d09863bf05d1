/**
 * The words of the channel between kernel and page, as `nbmem/frontend/messages.py` writes them.
 *
 * Samples that both sides are tested with: `tests/data/sidebar/*.json`. Figures come as texts: the
 * page knows nothing of memory. This file imports no other file of ours.
 */

/** The channel's version; the two sides say theirs when they meet. */
export const PROTOCOL = 1;

/** The comm target that a kernel with nbmem has. */
export const TARGET = 'nbmem';

/** Messages to every page at once carry this comm id; no comm of that id is ever opened. */
export const BROADCAST = 'nbmem-broadcast';

/** The MIME type of the kernel's widgets. */
export const WIDGET_VIEW = 'application/vnd.jupyter.widget-view+json';

/** Where a cell is: JupyterLab's id where the kernel was told one, and the n of its `[n]`. */
export interface ICellPlace {
  cell_id: string | null;
  number: number | null;
  serial?: number;
}

/** What moves while a cell runs. */
export interface ILive {
  type: 'live';
  protocol: number;
  /** False once, when the cell ended. */
  running: boolean;
  cell: ICellPlace | null;
  /** `[7] train one epoch` */
  title: string;
  /** `12 s · now 2.90 GiB · peak 3.10 GiB`, or why that is not known. */
  text: string;
  /** `2.90 of 7.93 GiB`, short enough for the status bar; empty where nothing is known. */
  status: string;
  /** Of the device's capacity, 0 to 1; null where one of the two is not known. */
  share: number | null;
  /** Seconds since the epoch, by the kernel's clock. */
  taken_at: number;
}

/** The present of the kernel, after a cell, a record or an act. */
export interface IState {
  type: 'state';
  protocol: number;
  /** `cuda:0` */
  device: string;
  status: string;
  share: number | null;
  /** A sentence for the pointer. */
  tip: string;
  /** `nothing is measured yet`, or empty. */
  hint: string;
  costliest: ICellPlace | null;
  /** HTML with inline styles: what the panel shows, readable without a kernel. */
  copy: string;
  taken_at: number;
}

/** The badge beside one cell's prompt. */
export interface IMark {
  cell_id: string | null;
  number: number | null;
  serial: number;
  /** `▲ 3.10 GiB` */
  peak: string;
  /** `+300 MiB`; empty where nothing stayed. */
  stayed: string;
  /** Of the peak, of the device's capacity; null where not known. */
  share: number | null;
  /** A sentence for the pointer and for screen readers. */
  tip: string;
}

/** Badges: all of them (`whole`), or those that changed. */
export interface IMarks {
  type: 'marks';
  protocol: number;
  whole: boolean;
  marks: IMark[];
}

/** The answer to an opened comm. */
export interface IHello {
  type: 'hello';
  protocol: number;
  /** Of the kernel's nbmem. */
  version: string;
  /** Of the panel's widget; null until it is built. */
  model_id: string | null;
  /** Why there is no panel yet, in a sentence; empty where there is one. */
  waits: string;
  marks: IMark[];
  state: IState | null;
  live: ILive | null;
}

/** The panel was built, or could not be. */
export interface IPanelBuilt {
  type: 'panel';
  protocol: number;
  model_id: string | null;
  /** Why it could not. */
  trouble: string;
}

/** nbmem was unloaded in the kernel. */
export interface IBye {
  type: 'bye';
  protocol: number;
  sentence: string;
}

/** What the kernel could not do with a message. */
export interface ITrouble {
  type: 'trouble';
  protocol: number;
  sentence: string;
}

export type FromKernel =
  | IHello
  | IPanelBuilt
  | ILive
  | IState
  | IMarks
  | IBye
  | ITrouble;

/** What a page sends; `open` is the data of the comm's opening. */
export interface IOpening {
  protocol: number;
  version: string;
  client: string;
  /** Whether the page can draw widgets; where none can, the kernel builds none for the sidebar. */
  widgets: boolean;
}

export type ToKernel =
  | { type: 'refresh' }
  /** Another panel in the place of one that the page cannot draw. */
  | { type: 'rebuild' }
  | { type: 'collect' }
  | { type: 'show_cell'; serial: number };

/**
 * A bar, a row or a link asks for its cell: a bubbling, composed DOM event of this name whose
 * `detail` is an `ICellPlace`, from any element of any page that has `JUMP_FLAG` on its body.
 */
export const JUMP_EVENT = 'nbmem-jump';

/** `document.body.dataset` key: set while the extension is there, so that jumps are offered. */
export const JUMP_FLAG = 'nbmemSidebar';
