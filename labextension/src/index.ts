import {
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  ICommandPalette,
  ISessionContextDialogs,
  MainAreaWidget,
  SessionContextDialogs,
  WidgetTracker
} from '@jupyterlab/apputils';
import { IConsoleTracker } from '@jupyterlab/console';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { UUID } from '@lumino/coreutils';
import { addCommands, CommandIDs } from './commands';
import { Connector } from './connector';
import { memoryIcon } from './icons';
import { addMarks } from './marks';
import { MemoryModel } from './model';
import { SidePanel } from './panel';
import type { Act } from './sentences';
import { Settings } from './settings';
import { Follower } from './tracker';
import { VERSION } from './version';

const PLUGIN = 'nbmem:plugin';

/** After JupyterLab's own panels of the right side. */
const RANK = 900;

/** The panel in the right sidebar, its commands, and what goes with it. */
const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN,
  description: 'Which cell took the memory: the panel of nbmem, following the notebook.',
  autoStart: true,
  requires: [IRenderMimeRegistry],
  optional: [
    INotebookTracker,
    IConsoleTracker,
    ILabShell,
    ILayoutRestorer,
    ICommandPalette,
    ISettingRegistry,
    IStatusBar,
    ITranslator,
    ISessionContextDialogs
  ],
  activate
};

export default plugin;

function activate(
  app: JupyterFrontEnd,
  rendermime: IRenderMimeRegistry,
  notebooks: INotebookTracker | null,
  consoles: IConsoleTracker | null,
  labShell: ILabShell | null,
  restorer: ILayoutRestorer | null,
  palette: ICommandPalette | null,
  registry: ISettingRegistry | null,
  statusBar: IStatusBar | null,
  translator: ITranslator | null,
  sessionDialogs: ISessionContextDialogs | null
): void {
  if (notebooks === null && consoles === null) {
    return; // a page without kernels, such as Notebook's file list
  }
  const trans = (translator ?? nullTranslator).load('nbmem');
  const settings = new Settings();
  if (registry !== null) {
    settings.load(registry, PLUGIN).catch(reason => console.warn('nbmem: no settings', reason));
  }
  const opening = { version: VERSION, client: UUID.uuid4(), widgets: true };
  const model = new MemoryModel((kernel, to) => new Connector(kernel, to, opening));
  const follower = new Follower(notebooks, consoles);
  const follow = () => {
    const kernel = follower.kernel;
    opening.widgets = kernel?.hasWidgets ?? true;
    model.follow(kernel);
  };
  follower.changed.connect(follow);
  void app.restored.then(follow);

  const dialogs = sessionDialogs ?? new SessionContextDialogs({ translator: translator ?? undefined });
  const act = (run: Act) => {
    const context = follower.current?.context;
    if (run === 'load') {
      model.load();
    } else if (run === 'refresh') {
      model.refresh();
    } else if (context && run === 'choose-kernel') {
      void dialogs.selectKernel(context);
    } else if (context) {
      void dialogs.restart(context);
    }
  };
  const open = labShell === null ? null : () => void app.commands.execute(CommandIDs.open);
  const make = (openInMain: (() => void) | null) =>
    new SidePanel({ model, follower, rendermime, trans, act, openInMain });

  const panel = make(open);
  panel.id = 'nbmem-panel';
  app.shell.add(panel, 'right', { rank: RANK, type: 'nbmem' });
  restorer?.add(panel, 'nbmem-panel');

  const tabs = new WidgetTracker<MainAreaWidget<SidePanel>>({ namespace: 'nbmem' });
  const openTab = () => {
    const tab = tabs.currentWidget ?? makeTab(make(null), trans.__('GPU memory'));
    if (!tab.isAttached) {
      app.shell.add(tab, 'main', { mode: 'split-right' });
      void tabs.add(tab);
    }
    app.shell.activateById(tab.id);
  };
  const show = () => app.shell.activateById(panel.id);
  const jumper = addMarks({ app, model, follower, settings, trans, notebooks, statusBar, show });
  addCommands({
    app,
    model,
    trans,
    palette,
    show,
    open: labShell === null ? null : openTab,
    jump: place => void jumper.jumpTo(place)
  });
  if (restorer !== null && labShell !== null) {
    void restorer.restore(tabs, { command: CommandIDs.open, name: () => 'nbmem' });
  }
}

function makeTab(content: SidePanel, label: string): MainAreaWidget<SidePanel> {
  const tab = new MainAreaWidget({ content });
  tab.id = 'nbmem-tab';
  tab.title.label = label;
  tab.title.icon = memoryIcon;
  tab.title.closable = true;
  tab.toolbar.hide();
  return tab;
}
