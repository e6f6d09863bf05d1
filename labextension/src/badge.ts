import type { IMark } from './tokens';

/** How much of the device a cell's peak took; each has its own sign besides its own colour. */
export type Level = 'unknown' | 'low' | 'middle' | 'high';

/** Returns the level of a share of the device's capacity (0 to 1). */
export function levelOf(share: number | null): Level {
  if (share === null || !Number.isFinite(share)) {
    return 'unknown';
  }
  return share < 0.5 ? 'low' : share < 0.8 ? 'middle' : 'high';
}

/** Returns the text of a peak without its triangle, which the badge draws. */
export function bare(peak: string): string {
  return peak.replace(/^▲\s*/, '');
}

const SVG = 'http://www.w3.org/2000/svg';

/** An open angle; a hollow, a half full and a full triangle, the last with an exclamation mark. */
const SIGNS: Record<Level, [string, string][]> = {
  unknown: [['nbmem-line', 'M1.5 7 L5 2 L8.5 7']],
  low: [['nbmem-line', 'M5 1 L9.2 8.6 L0.8 8.6 Z']],
  middle: [
    ['nbmem-line', 'M5 1 L9.2 8.6 L0.8 8.6 Z'],
    ['nbmem-fill', 'M2.5 5.6 L7.5 5.6 L9.2 8.6 L0.8 8.6 Z']
  ],
  high: [
    ['nbmem-fill', 'M5 0.5 L10 9.5 L0 9.5 Z'],
    ['nbmem-gap', 'M5 3.2 L5 6.2 M5 7.4 L5 8.5']
  ]
};

function sign(level: Level): SVGSVGElement {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 10 10');
  svg.setAttribute('aria-hidden', 'true');
  for (const [name, path] of SIGNS[level]) {
    const shape = document.createElementNS(SVG, 'path');
    shape.setAttribute('class', name);
    shape.setAttribute('d', path);
    svg.append(shape);
  }
  return svg;
}

function text(name: string, content: string): HTMLSpanElement {
  const span = document.createElement('span');
  span.className = name;
  span.textContent = content;
  return span;
}

/** The badge of one cell: a button that stands under the prompt and takes no room. */
export class Badge {
  /** `show` gets the serial of the record whose report is wanted. */
  constructor(mark: IMark, show: (serial: number) => void) {
    this._mark = mark;
    this._button.type = 'button';
    // Lab's one-key shortcuts would swallow Enter and Space before the button sees them.
    this._button.dataset.lmSuppressShortcuts = 'true';
    this._button.addEventListener('click', () => show(this._mark.serial));
    this.node.className = 'nbmem-badge-place';
    this.node.append(this._button);
    this._draw();
  }

  /** What stands in the cell's node. */
  readonly node = document.createElement('div');

  get mark(): IMark {
    return this._mark;
  }

  set mark(mark: IMark) {
    if (mark !== this._mark) {
      this._mark = mark;
      this._draw();
    }
  }

  private _draw(): void {
    const { peak, stayed, share, tip } = this._mark;
    const level = levelOf(share);
    const button = this._button;
    button.className = `nbmem-badge nbmem-badge-${level}`;
    button.title = tip;
    button.setAttribute('aria-label', tip);
    const first = text('nbmem-badge-peak', bare(peak));
    first.prepend(sign(level));
    button.replaceChildren(first, ...(stayed ? [text('nbmem-badge-stayed', stayed)] : []));
  }

  private _button = document.createElement('button');
  private _mark: IMark;
}
