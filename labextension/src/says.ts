import { Widget } from '@lumino/widgets';

/** A button below a sentence. */
export interface IPress {
  label: string;
  /** It was pressed and works. */
  busy: boolean;
  press: () => void;
}

/** A sentence that screen readers are told of, with a button where something can be done. */
export class Says extends Widget {
  constructor(kind: string, role: 'status' | 'alert') {
    super();
    const look = role === 'status' ? ' jp-mod-accept' : '';
    this.addClass('nbmem-Says');
    this.addClass(kind);
    this._sentence = this.node.appendChild(document.createElement('p'));
    this._sentence.className = 'nbmem-Says-sentence';
    this._sentence.setAttribute('role', role);
    this._button = this.node.appendChild(document.createElement('button'));
    this._button.className = `nbmem-Says-button jp-mod-styled${look}`;
    this._button.type = 'button';
    this._button.addEventListener('click', () => this._press?.());
    this.draw('', null);
  }

  /** Says a sentence, or nothing; what is between backticks is set as code. `busy`: it will go by itself. */
  draw(sentence: string, button: IPress | null | undefined, busy = false): void {
    this.setHidden(sentence === '');
    this.node.setAttribute('aria-busy', String(busy));
    if (sentence !== this._said) {
      this._said = sentence;
      this._sentence.replaceChildren(...sentence.split('`').map(asNode));
    }
    this._press = button?.busy === false ? button.press : null;
    this._button.hidden = !button;
    this._button.textContent = button?.label ?? '';
    this._button.setAttribute('aria-disabled', String(button?.busy === true));
  }

  private _said = '';
  private _press: (() => void) | null = null;
  private _sentence: HTMLElement;
  private _button: HTMLButtonElement;
}

function asNode(part: string, index: number): Node {
  if (index % 2 === 0) {
    return document.createTextNode(part);
  }
  const code = document.createElement('code');
  code.textContent = part;
  return code;
}
