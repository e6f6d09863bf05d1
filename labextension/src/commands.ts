import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { memoryIcon } from './icons';
import type { MemoryModel } from './model';
import type { ICellPlace } from './tokens';

/** The commands' names, for the palette, menus and the layout. */
export namespace CommandIDs {
  export const show = 'nbmem:show';
  export const open = 'nbmem:open-in-main-area';
  export const load = 'nbmem:load';
  export const refresh = 'nbmem:refresh';
  export const collect = 'nbmem:collect';
  export const costliest = 'nbmem:jump-to-costliest-cell';
}

/** What the commands act on. */
export interface ICommandsOptions {
  app: JupyterFrontEnd;
  model: MemoryModel;
  trans: TranslationBundle;
  palette: ICommandPalette | null;
  /** Shows the sidebar's panel. */
  show: () => void;
  /** Opens the main area's; null where the main area holds one document. */
  open: (() => void) | null;
  jump: (place: ICellPlace) => void;
}

interface ICommand {
  id: string;
  label: string;
  caption: string;
  execute: () => void;
  isEnabled?: () => boolean;
}

/** Registers the commands, and lists them in the palette. */
export function addCommands(options: ICommandsOptions): void {
  const { app, model, palette, trans } = options;
  const category = trans.__('nbmem');
  for (const command of listCommands(options)) {
    app.commands.addCommand(command.id, {
      label: command.label,
      caption: command.caption,
      icon: command.id === CommandIDs.show ? memoryIcon : undefined,
      execute: command.execute,
      isEnabled: command.isEnabled ?? (() => true),
      describedBy: { args: { type: 'object', properties: {} } }
    });
    palette?.addItem({ command: command.id, category });
  }
  let kind = model.state.kind;
  model.changed.connect(() => {
    if (model.state.kind !== kind) {
      kind = model.state.kind;
      app.commands.notifyCommandChanged();
    }
  });
}

function listCommands({ model, trans, show, open, jump }: ICommandsOptions): ICommand[] {
  const met = () => model.state.kind === 'ready' || model.state.kind === 'no-widgets';
  const loadable = () => ['not-loaded', 'no-package', 'no-torch'].includes(model.state.kind);
  const commands: ICommand[] = [
    {
      id: CommandIDs.show,
      label: trans.__('Show GPU Memory'),
      caption: trans.__('Show which cell of this notebook took the memory'),
      execute: show
    },
    {
      id: CommandIDs.load,
      label: trans.__('Load nbmem in This Kernel'),
      caption: trans.__('Run `%load_ext nbmem` in the kernel of this notebook'),
      execute: () => model.load(),
      isEnabled: loadable
    },
    {
      id: CommandIDs.refresh,
      label: trans.__('Refresh GPU Memory'),
      caption: trans.__('Look at the memory of this kernel anew'),
      execute: () => model.refresh()
    },
    {
      id: CommandIDs.collect,
      label: trans.__('Collect Garbage in This Kernel'),
      caption: trans.__('Run Python’s garbage collector in the kernel; the panel says what came back'),
      execute: () => model.send({ type: 'collect' }),
      isEnabled: met
    },
    {
      id: CommandIDs.costliest,
      label: trans.__('Jump to the Costliest Cell'),
      caption: trans.__('Show the cell with the highest peak'),
      execute: () => {
        const place = model.present?.costliest;
        if (place) {
          jump(place);
        }
      },
      isEnabled: () => Boolean(model.present?.costliest)
    }
  ];
  if (open !== null) {
    commands.push({
      id: CommandIDs.open,
      label: trans.__('Open GPU Memory in the Main Area'),
      caption: trans.__('Open the panel as a tab, as wide as the page'),
      execute: open
    });
  }
  return commands;
}
