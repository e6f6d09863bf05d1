// The page's end of `rows.py`: puts the rows of a message together with those that are here.

class RowStream {
  constructor() {
    this.number = 0;
    this.head = {};
    this.lists = {};
  }

  // Returns whether there is something new; `lacking`: it builds upon a message that never came.
  take(buffer) {
    const told = JSON.parse(new TextDecoder().decode(buffer));
    const fits = !told.base || told.base === this.number;
    // The first message was asked for already, and one that is older says nothing new.
    this.lacking = !fits && this.number > 0 && told.number > this.number;
    if (!fits) return false;
    const { ids, lists } = told;
    lists.places &&= lists.places.map((place) => this.placeOf(place, ids));
    const joined = {};
    for (const name of Object.keys(lists)) {
      joined[name] = this.join(this.lists[name], lists[name], told.runs);
    }
    Object.assign(this, { number: told.number, head: told.head, lists: joined });
    return true;
  }

  placeOf(place, ids) {
    return place && { cell_id: ids[place[0]] ?? null, number: place[1], serial: place[2] };
  }

  join(before, fresh, runs) {
    let taken = 0;
    const parts = runs.map(([first, count]) =>
      first < 0 ? fresh.slice(taken, (taken += count)) : before.slice(first, first + count)
    );
    return [].concat(...parts);
  }
}

// Whether the page has an extension that knows where cells are.
const JUMPS = () => Boolean(document.body.dataset.nbmemSidebar);

function jump(element, detail) {
  element.dispatchEvent(
    new CustomEvent("nbmem-jump", { bubbles: true, composed: true, detail })
  );
}
