import { FitAddon } from '@xterm/addon-fit';
import { type ITerminalOptions, Terminal } from '@xterm/xterm';
import '@xterm/xterm/css/xterm.css';

/**
 * The emulator that shows terminals and their recordings. What a device writes must not reach beyond the screen: it sets
 * no title of the page, writes nothing into the clipboard, and makes no links (docs/decisions/terminal.md).
 */
export interface Screen {
  terminal: Terminal;
  /** Takes the size of its element. */
  fit(): void;
  dispose(): void;
}

/** Operating system commands (OSC) that are ignored: titles, working directories, links, notices, the clipboard. */
const IGNORED = [0, 1, 2, 7, 8, 9, 52, 133, 633, 777, 1337];

const OPTIONS: ITerminalOptions = {
  cursorBlink: false,
  fontSize: 14,
  scrollback: 5000,
  // Without this, what a screen reader is told is the canvas.
  screenReaderMode: true,
  theme: { background: '#141414', foreground: '#e8e8e8' },
};

export function openScreen(element: HTMLElement, options: ITerminalOptions = {}): Screen {
  const terminal = new Terminal({ ...OPTIONS, ...options });
  for (const code of IGNORED) terminal.parser.registerOscHandler(code, () => true);
  const fitting = new FitAddon();
  terminal.loadAddon(fitting);
  terminal.open(element);
  return {
    terminal,
    fit: () => fitting.fit(),
    dispose: () => terminal.dispose(),
  };
}
