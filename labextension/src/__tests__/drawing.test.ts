import assert from 'node:assert/strict';
import test from 'node:test';

import { INode, lookAt } from '../drawing';

/** An element with these classes around another one. */
function node(classes: string, inner: INode | null = null): INode {
  const names = classes.split(' ');
  return { classList: { contains: name => names.includes(name) }, firstElementChild: inner };
}

/** What JupyterLab's manager of widgets makes of a model or a view that failed. */
const FAILED = node('jupyter-widgets', node('jupyter-widgets-error-widget icon-error'));

test('a widget whose manager does not know it yet is late', () => {
  assert.equal(lookAt(node('jp-OutputArea-output')), 'late');
});

test('a widget that its manager gave up is lost', () => {
  assert.equal(lookAt(node('jp-OutputArea-output jupyter-widgets')), 'lost');
});

test('a widget in whose place an error stands is lost', () => {
  assert.equal(lookAt(node('jp-OutputArea-output', FAILED)), 'lost');
});

test('a widget is drawn, also where a part of it failed or it has no parts', () => {
  assert.equal(lookAt(node('', node('jupyter-widgets widget-box', FAILED))), 'drawn');
  assert.equal(lookAt(node('', node('jupyter-widgets widget-box'))), 'drawn');
});
