/** As much of a page as badges are made of; it knows no HTML, so that text can only be text. */

/** An element that counts what is done to any. */
export class FakeElement {
  constructor(public tag: string) {}

  static changes = 0;

  children: FakeElement[] = [];
  parent: FakeElement | null = null;
  attributes: Record<string, string> = {};
  dataset: Record<string, string> = {};
  className = '';
  title = '';
  type = '';
  textContent = '';

  /** The texts of this and of all below. */
  get text(): string {
    return this.textContent + this.children.map(child => child.text).join('');
  }

  setAttribute(name: string, value: string): void {
    FakeElement.changes += 1;
    this.attributes[name] = value;
  }

  append(...nodes: FakeElement[]): void {
    FakeElement.changes += 1;
    nodes.forEach(node => {
      node.remove();
      node.parent = this;
      this.children.push(node);
    });
  }

  prepend(...nodes: FakeElement[]): void {
    const rest = this.children;
    this.children = [];
    this.append(...nodes, ...rest);
  }

  replaceChildren(...nodes: FakeElement[]): void {
    this.children = [];
    this.append(...nodes);
  }

  remove(): void {
    FakeElement.changes += this.parent === null ? 0 : 1;
    const siblings = this.parent?.children ?? [];
    if (siblings.includes(this)) {
      siblings.splice(siblings.indexOf(this), 1);
    }
    this.parent = null;
  }

  addEventListener(_: string, listener: () => void): void {
    this._listener = listener;
  }

  click(): void {
    this._listener();
  }

  find(tag: string): FakeElement[] {
    const below = this.children.flatMap(child => child.find(tag));
    return this.tag === tag ? [this, ...below] : below;
  }

  private _listener: () => void = () => undefined;
}

/** Puts such elements in the place of a page's. */
export function useFakePage(): void {
  const made = { createElement: make, createElementNS: (_: string, tag: string) => make(tag) };
  Object.assign(globalThis, { document: made });
}

function make(tag: string): FakeElement {
  return new FakeElement(tag);
}
