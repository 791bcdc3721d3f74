import { spawn, type ChildProcess } from 'node:child_process';
import os from 'node:os';
import { StringDecoder } from 'node:string_decoder';
import { clock, type Timer } from '../../../clock.ts';
import {
  AgentErrorCode,
  TERMINAL_INPUT_WINDOW,
  type TerminalMode,
  type TerminalSize,
} from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { findProgram, systemProgram } from '../../os/child-process.ts';
import { killSession, processMark, type KnownProcess, signalGroup } from '../../os/process-group.ts';
import { LineEditor } from './line-editor.ts';

/** A shell that runs for a terminal, and what holds its terminal. */
export interface TerminalProcess {
  readonly mode: TerminalMode;
  readonly shell: string;
  /** The process group of the shell, so that a later agent can end it. */
  readonly known: KnownProcess | undefined;
  write(input: string): void;
  resize(size: TerminalSize): void;
  /** Stops reading the output, which makes the programs wait that write it. */
  pause(): void;
  resume(): void;
  /** Ends the shell and everything that still belongs to its terminal. */
  end(): void;
}

export interface TerminalEvents {
  onOutput(text: string): void;
  /** Called once, after all output. `null` if a signal ended the shell. */
  onExit(exitCode: number | null): void;
}

export type StartTerminalProcess = (size: TerminalSize, events: TerminalEvents) => Promise<TerminalProcess>;

/**
 * Starts shells for terminals. On Linux and macOS the program `script`, which the systems bring along, owns the terminal:
 * Node.js has no function for one, and a native addon would have to be built for every platform. `stty` changes its size
 * from beside it. Where there is no `script`, and on Windows, the shell gets whole lines over pipes.
 */
export async function findTerminalProcess(
  searchPath: string | undefined = process.env['PATH'],
): Promise<StartTerminalProcess> {
  if (process.platform === 'win32') return startWindowsShell;
  const [script, stty] = await Promise.all([
    findProgram(['script'], searchPath),
    findProgram(['stty'], searchPath),
  ]);
  if (script === undefined || stty === undefined) return startPlainShell;
  return (size, events) => startInTerminal({ script, stty }, size, events);
}

/** How long the shell may take to report its terminal. */
const START_MS = 10_000;
/** How long a shell may take to end after its terminal has hung up. */
const HANGUP_MS = 1000;

interface Programs {
  script: string;
  stty: string;
}

async function startInTerminal(
  { script, stty }: Programs,
  size: TerminalSize,
  events: TerminalEvents,
): Promise<TerminalProcess> {
  const shell = await loginShell();
  // The shell's process reports itself and its terminal over a pipe of its own, and then becomes the shell.
  const inTerminal = [
    `${quoted(stty)} sane rows ${size.rows} cols ${size.cols}`,
    'echo "$$ $(tty)" >&3',
    'exec 3>&-',
    `SHELL=${quoted(shell)} exec ${quoted(shell)} -l`,
  ].join('; ');
  const child = spawn(...scriptCommand(script, inTerminal), {
    stdio: ['pipe', 'pipe', 'ignore', 'pipe'],
    detached: true,
    cwd: os.homedir(),
    env: shellEnvironment('xterm-256color'),
  });
  const { pid, tty } = await reported(child);
  const running = new RunningShell(child, events, () => {
    signal(pid, 'SIGHUP');
    signalGroup(child.pid, 'SIGTERM');
    return () => {
      void killSession(pid);
      signalGroup(child.pid, 'SIGKILL');
    };
  });
  return {
    mode: 'pty',
    shell,
    known: { pid, mark: await processMark(pid) },
    write: (input) => running.write(input),
    resize({ cols, rows }) {
      const device = process.platform === 'linux' ? '-F' : '-f';
      // Programs in the terminal are told by the system. A terminal that has just ended needs no size.
      spawn(stty, [device, tty, 'rows', String(rows), 'cols', String(cols)], { stdio: 'ignore' }).on(
        'error',
        () => {},
      );
    },
    pause: () => running.pause(),
    resume: () => running.resume(),
    end: () => running.end(),
  };
}

function scriptCommand(script: string, command: string): [string, string[]] {
  if (process.platform === 'linux') {
    return [script, ['--quiet', '--flush', '--return', '--command', command, '/dev/null']];
  }
  // The `script` of BSD refuses a socket as its input, which a pipe of Node.js is.
  const line = `cat | ${quoted(script)} -q -t 0 /dev/null /bin/sh -c ${quoted(command)} | cat`;
  return ['/bin/sh', ['-c', line]];
}

const quoted = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** What the shell's process writes about itself. */
async function reported(child: ChildProcess): Promise<{ pid: number; tty: string }> {
  const limit = new AbortController();
  const report = child.stdio[3];
  let text = '';
  try {
    await Promise.race([
      new Promise<void>((resolve, reject) => {
        child.once('error', reject);
        child.once('exit', () => reject(new Error('it ended at once')));
        report?.on('data', (bytes: Buffer) => {
          text += bytes.toString();
          if (text.includes('\n')) resolve();
        });
      }),
      clock.sleep(START_MS, { signal: limit.signal }).then(
        () => Promise.reject(new Error('it took too long')),
        () => undefined,
      ),
    ]);
  } catch (error) {
    signalGroup(child.pid, 'SIGKILL');
    throw notStarted(error);
  } finally {
    limit.abort();
    report?.destroy();
  }
  const [, pid = '', tty = ''] = /^(\d+) (\/dev\/[\w/.-]+)/.exec(text) ?? [];
  if (tty !== '') return { pid: Number(pid), tty };
  signalGroup(child.pid, 'SIGKILL');
  throw notStarted(new Error('it has no terminal'));
}

const notStarted = (error: unknown) =>
  new AgentError(
    AgentErrorCode.failed,
    `No terminal could be started: ${error instanceof Error ? error.message : String(error)}.`,
  );

/** The shell of the agent's account. */
async function loginShell(): Promise<string> {
  const { shell } = os.userInfo();
  const isUsable = shell !== null && shell !== '' && !/\/(nologin|false)$/.test(shell);
  return (
    (isUsable ? await findProgram([''], shell) : undefined) ??
    (await findProgram(['bash', 'sh'])) ??
    '/bin/sh'
  );
}

function shellEnvironment(term: string): NodeJS.ProcessEnv {
  const { username, homedir } = os.userInfo();
  return { ...process.env, TERM: term, HOME: homedir, USER: username, LOGNAME: username, SHELL: '/bin/sh' };
}

function signal(pid: number, name: NodeJS.Signals): void {
  for (const target of [-pid, pid]) {
    try {
      process.kill(target, name);
      return;
    } catch {
      // The group is gone, or the process leads none.
    }
  }
}

/** The child process of a terminal: its input with a limit, its output as text, and its end. */
class RunningShell {
  readonly #child: ChildProcess;
  readonly #hangUp: () => () => void;
  #force: (() => void) | undefined;
  #forceTimer: Timer | undefined;
  #isOver = false;

  /** @param hangUp  asks the shell to end, and returns the function that forces it */
  constructor(child: ChildProcess, events: TerminalEvents, hangUp: () => () => void) {
    this.#child = child;
    this.#hangUp = hangUp;
    for (const stream of [child.stdout, child.stderr]) {
      if (stream === null) continue;
      // Each stream has a decoder, because a character may be split between two reads.
      const decoder = new StringDecoder('utf8');
      stream.on('data', (bytes: Buffer) => events.onOutput(decoder.write(bytes)));
    }
    // The shell may end while it is written to.
    child.stdin?.on('error', () => {});
    child.once('error', () => {});
    child.once('close', (exitCode: number | null) => {
      this.#isOver = true;
      clock.clear(this.#forceTimer);
      // Programs of the terminal may have ignored that it has hung up.
      this.#force?.();
      events.onExit(exitCode);
    });
  }

  /** Input that a shell does not read is dropped beyond the limit that viewers keep to. */
  write(input: string): void {
    const { stdin } = this.#child;
    if (stdin?.writable !== true || stdin.writableLength > 2 * TERMINAL_INPUT_WINDOW) return;
    stdin.write(input);
  }

  pause(): void {
    this.#child.stdout?.pause();
    this.#child.stderr?.pause();
  }

  resume(): void {
    this.#child.stdout?.resume();
    this.#child.stderr?.resume();
  }

  end(): void {
    if (this.#isOver || this.#force !== undefined) return;
    this.resume();
    this.#force = this.#hangUp();
    this.#forceTimer = clock.setTimeout(() => {
      this.#force?.();
      // Programs that have left the terminal may keep the output open.
      this.#child.stdout?.destroy();
      this.#child.stderr?.destroy();
    }, HANGUP_MS);
  }
}

/** A shell that reads lines from a pipe, and what makes a terminal of it as far as that is possible. */
function startOverPipes(
  command: string,
  args: readonly string[],
  { events, shell, lineEnd }: { events: TerminalEvents; shell: string; lineEnd: string },
): Promise<TerminalProcess> {
  const isGrouped = process.platform !== 'win32';
  const child = spawn(command, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: isGrouped,
    windowsHide: true,
    cwd: os.homedir(),
    env: shellEnvironment('dumb'),
  });
  const editor = new LineEditor();
  const running = new RunningShell(
    child,
    {
      // A terminal would begin each line at the left.
      onOutput: (text) => events.onOutput(text.replaceAll(/\r?\n/g, '\r\n')),
      onExit: (exitCode) => events.onExit(exitCode),
    },
    () => {
      signalGroup(child.pid, 'SIGTERM');
      return () => signalGroup(child.pid, 'SIGKILL');
    },
  );
  return new Promise((resolve, reject) => {
    child.once('error', (error) => reject(notStarted(error)));
    child.once('spawn', () => {
      void processMark(child.pid ?? 0).then((mark) =>
        resolve({
          mode: 'lines',
          shell,
          known: { pid: child.pid ?? 0, mark },
          write(input) {
            for (const step of editor.type(input)) {
              if (step.echo !== '') events.onOutput(step.echo);
              if (step.line !== undefined) running.write(step.line + lineEnd);
              if (step.isInterrupt === true && isGrouped) signalGroup(child.pid, 'SIGINT');
              if (step.isEnd === true) child.stdin?.end();
            }
          },
          resize() {},
          pause: () => running.pause(),
          resume: () => running.resume(),
          end: () => running.end(),
        }),
      );
    });
  });
}

async function startPlainShell(_size: TerminalSize, events: TerminalEvents): Promise<TerminalProcess> {
  const shell = await loginShell();
  return startOverPipes(shell, ['-i'], { events, shell, lineEnd: '\n' });
}

function startWindowsShell(_size: TerminalSize, events: TerminalEvents): Promise<TerminalProcess> {
  const shell = systemProgram('cmd', 'win32');
  // The editor has shown each line already. In this code page, cmd writes UTF-8.
  return startOverPipes(shell, ['/d', '/q', '/k', 'chcp 65001 >nul'], { events, shell, lineEnd: '\r\n' });
}
