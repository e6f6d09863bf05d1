/**
 * What became of a widget, told from the element that was to show it.
 *
 * The manager of widgets says it in no other way: not one of these ends is an error of its own.
 */

/** `late`: its manager does not know it yet. `lost`: it never will, or it failed. */
export type Sight = 'none' | 'late' | 'drawn' | 'lost';

/** On a renderer, only where its manager has given a widget up. */
const GIVEN_UP = 'jupyter-widgets';
/** In the place of a widget whose model or view failed. */
export const FAILED = 'jupyter-widgets-error-widget';

/** What is needed of an element. */
export interface INode {
  readonly classList: { contains(name: string): boolean };
  readonly firstElementChild: INode | null;
}

/** Returns how the widget in a renderer looks; what fails inside of it comes later. */
export function lookAt(renderer: INode): Exclude<Sight, 'none'> {
  const widget = renderer.firstElementChild;
  if (widget === null) {
    return renderer.classList.contains(GIVEN_UP) ? 'lost' : 'late';
  }
  return widget.firstElementChild?.classList.contains(FAILED) === true ? 'lost' : 'drawn';
}
