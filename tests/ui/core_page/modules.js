// Modules as the page's loader has them: those of the classic notebook, and the widget manager that
// ipywidgets brings (the package widgetsnbextension). A widget of any other module is refused, as
// Colab and Kaggle refuse it.

const NOTHING = () => {};

globalThis.Jupyter = {
  version: "6.5.7",
  notebook: book,
  menubar: { actions: { register: NOTHING, get: NOTHING } },
  notification_area: { widget: NOTHING },
};

const MODULES = {
  "base/js/namespace": globalThis.Jupyter,
  "base/js/events": events,
  "notebook/js/outputarea": { OutputArea },
  "services/kernels/comm": { Comm },
};

const refused = [];

function requirejs(names, resolve, reject) {
  const foreign = names.filter((name) => !(name in MODULES));
  refused.push(...foreign);
  if (foreign.length) reject?.(new Error(`Third-party widgets are not loaded: ${foreign}`));
  else resolve?.(...names.map((name) => MODULES[name]));
}
requirejs.config = NOTHING;
globalThis.requirejs = globalThis.require = requirejs;

let extension;
function define(_names, factory) {
  extension = factory({ uri: `${location.href}extension.js` });
}

async function openNotebook() {
  await book.open();
  await extension.load_ipython_extension();
  globalThis.nbmemReady = true;
}
