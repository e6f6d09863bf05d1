// A button that is disabled or hidden by its own press leaves the keyboard nowhere. The table of its
// section takes it then, the section's title where the table is gone too, or the button itself when
// it can be pressed again at once. Nothing is taken from an element that has the focus.

const REGAIN_AFTER = 250;

function usable(element) {
  return Boolean(element) && !element.disabled && element.offsetParent !== null;
}

class Keyboard {
  constructor(grid) {
    this.grid = grid;
    this.onFocus = (event) => this.follow(event.target);
    this.onBlur = (event) => this.leave(event.target);
    document.addEventListener("focusin", this.onFocus);
    document.addEventListener("focusout", this.onBlur);
  }

  follow(focused) {
    this.last = focused;
    if (this.changes) return;
    const section = this.grid.closest(".nbmem-section");
    if (!section?.contains(focused)) return;
    this.changes = new MutationObserver(() => this.regainSoon());
    const attributeFilter = ["disabled", "style"];
    this.changes.observe(section, { subtree: true, attributes: true, attributeFilter });
    this.section = section;
  }

  leave(left) {
    if (left === this.last && usable(left)) this.last = null;
  }

  get isNowhere() {
    const active = document.activeElement;
    return !active || active === document.body || active === this.last;
  }

  get isLost() {
    return this.section?.contains(this.last) && this.isNowhere && !usable(this.last);
  }

  regainSoon() {
    if (this.waiting || !this.isLost) return;
    this.waiting = setTimeout(() => this.regain(), REGAIN_AFTER);
  }

  regain() {
    this.waiting = null;
    if (!this.last || !this.isNowhere) return;
    const title = this.section.querySelector(".nbmem-title");
    [this.last, this.grid, title].find(usable)?.focus({ preventScroll: true });
  }

  remove() {
    clearTimeout(this.waiting);
    this.changes?.disconnect();
    document.removeEventListener("focusin", this.onFocus);
    document.removeEventListener("focusout", this.onBlur);
  }
}
