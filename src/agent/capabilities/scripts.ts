import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import { z } from 'zod';
import { clock, type Timer } from '../../clock.ts';
import {
  AgentErrorCode,
  type CommandOutput,
  type CommandPayload,
  SCRIPT_OUTPUT_MAX,
  type CommandRow,
  type ScriptLanguage,
} from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';
import { lastBytes, lastCharacters, plainText } from '../core/plain-text.ts';
import { hasCode, readPrivateJson, writePrivateJson } from '../os/files/private-file.ts';
import { findProgram } from '../os/child-process.ts';
import { runGroup, processMark, endLeftover } from '../os/process-group.ts';
import type { DurableContext, DurableHandlers } from '../work/handler.ts';

/** Runs scripts in the languages that this machine supports. Without any, the agent does not offer `script.run`. */
export function scriptHandlers(interpreters: Interpreters, folder: ScriptFolder): DurableHandlers {
  if (Object.keys(interpreters).length === 0) return {};
  return { 'script.run': (script, context) => runScript(interpreters, folder, script, context) };
}

async function runScript(
  interpreters: Interpreters,
  folder: ScriptFolder,
  { language, content, parameters = {}, secrets = {}, timeoutSeconds }: CommandPayload<'script.run'>,
  { signal, rows, secret }: DurableContext<'script.run'>,
): Promise<CommandOutput<'script.run'>> {
  const interpreter = interpreters[language];
  if (interpreter === undefined) {
    throw new AgentError(AgentErrorCode.capabilityMissing, `This machine has no ${language} interpreter.`);
  }
  const captured = { stdout: new CapturedOutput(), stderr: new CapturedOutput() };
  const live = new LiveOutput(rows);
  const env = Object.fromEntries([
    ...Object.entries(parameters).map(([name, value]) => [`PARAM_${name}`, value] as const),
    ...Object.entries(secrets).map(([name, ref]) => [`SECRET_${name}`, secret(ref)] as const),
  ]);
  const { exitCode, cut } = await folder.with(interpreter, content, ({ file, workFolder, started }) =>
    runGroup(interpreter.command, [...interpreter.args, file], {
      cwd: workFolder,
      onStart: started,
      env: { ...process.env, ...interpreter.env, ...env },
      signal,
      timeoutMs: timeoutSeconds * 1000,
      onOutput: (stream, bytes) => live.add(stream, captured[stream].add(bytes)),
    }),
  );
  live.end();
  const [stdout, stderr] = [captured.stdout.end(), captured.stderr.end()];
  const output = {
    exitCode,
    stdout: stdout.text,
    stderr: stderr.text,
    truncated: stdout.isCut || stderr.isCut,
  };
  if (cut === 'timed_out') {
    const message = `The script ran longer than ${timeoutSeconds} s and was stopped.`;
    throw new AgentError(AgentErrorCode.timedOut, message, output);
  }
  if (cut === 'cancelled') throw new AgentError(AgentErrorCode.cancelled, 'The script was stopped.', output);
  return output;
}

/** The program that runs scripts of one language. */
interface Interpreter {
  command: string;
  /** The arguments before the name of the script. */
  args: readonly string[];
  extension: string;
  /** Text that the file needs before the script. */
  head: string;
  /** Line ending that the interpreter requires, if it does. */
  lineEnd?: '\r\n';
  /** Variables that the interpreter needs. */
  env?: Readonly<Record<string, string>>;
}

type Interpreters = { readonly [L in ScriptLanguage]?: Interpreter };

// Without this mark, Windows PowerShell reads a file in the code page of the machine.
const BYTE_ORDER_MARK = '\uFEFF';
const POWERSHELL = ['-NoLogo', '-NoProfile', '-NonInteractive', '-ExecutionPolicy', 'Bypass', '-File'];
const KNOWN = [
  { language: 'bash', names: ['bash'], args: [], extension: '.sh', head: '' },
  {
    language: 'python',
    // The installer for Windows puts its launcher, py, on the search path of all users, and python only if asked to.
    names: process.platform === 'win32' ? ['python3', 'python', 'py'] : ['python3', 'python'],
    // -u turns off buffering, so that output is streamed when it is printed.
    args: ['-u'],
    extension: '.py',
    head: '',
    // Otherwise Python writes in the code page of the machine, and fails at characters that it does not have.
    env: { PYTHONIOENCODING: 'utf-8' },
  },
  {
    language: 'powershell',
    names: process.platform === 'win32' ? ['pwsh', 'powershell'] : ['pwsh'],
    args: POWERSHELL,
    extension: '.ps1',
    head: BYTE_ORDER_MARK,
  },
  {
    language: 'cmd',
    names: process.platform === 'win32' ? ['cmd'] : [],
    // /d skips the commands that the registry may run at each start of cmd.
    args: ['/d', '/q', '/c'],
    extension: '.cmd',
    // Without this code page, cmd uses the code page of the machine for characters beyond ASCII.
    head: '@chcp 65001 >nul\r\n',
    // Jumps to labels fail with other line endings.
    lineEnd: '\r\n',
  },
] as const satisfies readonly (Omit<Interpreter, 'command'> & {
  language: ScriptLanguage;
  names: readonly string[];
})[];

/** The languages that this machine supports, with the first program for each on the search path. */
export async function findInterpreters(
  searchPath: string = process.env['PATH'] ?? '',
): Promise<Interpreters> {
  const found = await Promise.all(
    KNOWN.map(async ({ language, names, ...interpreter }) => {
      const command = await findProgram(names, searchPath);
      return command === undefined ? [] : [[language, { ...interpreter, command }] as const];
    }),
  );
  return Object.fromEntries(found.flat());
}

/** Written beside a running script: the process that the next agent has to end if this one is killed. */
const RunningScript = z.object({ pid: z.number().int().positive(), mark: z.string() });
const PROCESS_FILE = 'process.json';

/** What a script needs to run. */
interface PreparedScript {
  file: string;
  workFolder: string;
  /** Must be called when the process has started: it records the process, so that a later agent can end it. */
  started: (pid: number) => Promise<void>;
}

/** The folder of running scripts, below the agent's own folder, so that the next start finds what a killed agent left. */
export class ScriptFolder {
  readonly #root: string;
  readonly #warn: (message: string) => void;

  constructor(dataDir: string, warn: (message: string) => void) {
    this.#root = path.join(dataDir, 'scripts');
    this.#warn = warn;
  }

  /** Ends the scripts that an earlier agent left running, and removes their files. */
  async clear(): Promise<void> {
    const names = await readdir(this.#root).catch((error: unknown) => {
      if (!hasCode(error, 'ENOENT')) {
        this.#warn(`The folder ${this.#root} could not be read: ${String(error)}`);
      }
      return [];
    });
    await Promise.all(names.map(async (name) => this.#endScriptIn(path.join(this.#root, name))));
    await this.#remove(this.#root);
  }

  /** Calls `use` with the script's file and an empty working folder. Both are removed afterwards, also after a failure. */
  async with<T>(
    { extension, head, lineEnd }: Interpreter,
    content: string,
    use: (script: PreparedScript) => Promise<T>,
  ): Promise<T> {
    await mkdir(this.#root, { recursive: true, mode: 0o700 });
    const folder = await mkdtemp(path.join(this.#root, 'run-'));
    try {
      const file = path.join(folder, `script${extension}`);
      const workFolder = path.join(folder, 'work');
      const text = lineEnd === undefined ? content : content.replace(/\r?\n/g, lineEnd);
      await writeFile(file, head + text, { mode: 0o600, flag: 'wx' });
      await mkdir(workFolder, { mode: 0o700 });
      return await use({
        file,
        workFolder,
        async started(pid) {
          await writePrivateJson(path.join(folder, PROCESS_FILE), { pid, mark: await processMark(pid) });
        },
      });
    } finally {
      await this.#remove(folder);
    }
  }

  async #endScriptIn(folder: string): Promise<void> {
    const left = RunningScript.safeParse(
      await readPrivateJson(path.join(folder, PROCESS_FILE)).catch(() => undefined),
    );
    if (!left.success || (await endLeftover(left.data))) return;
    this.#warn(`A script that an earlier agent left running (process ${left.data.pid}) could not be ended.`);
  }

  async #remove(folder: string): Promise<void> {
    try {
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    } catch (error) {
      this.#warn(`The folder ${folder} could not be removed. The next start tries again: ${String(error)}`);
    }
  }
}

type Row = CommandRow<'script.run'>;

const FRAME_EVERY_MS = 250;
const WAITING_MAX = 64_000;

/**
 * Streams the output of a script to dashboards: one frame at a time and a few each second, each with
 * everything since the last one. The network never delays a script: when there is too much output, the oldest part is
 * omitted.
 */
export class LiveOutput {
  readonly #send: (rows: readonly Row[]) => Promise<void>;
  #rows: Row[] = [];
  #length = 0;
  #omitted = 0;
  #timer: Timer | undefined;
  #isSending = false;
  #lastSentAt = 0;

  constructor(send: (rows: readonly Row[]) => Promise<void>) {
    this.#send = send;
  }

  add(stream: Row['stream'], text: string): void {
    if (text === '') return;
    const last = this.#rows.at(-1);
    // Consecutive output of one stream becomes one row, which bounds the number of rows.
    if (last?.stream === stream) last.text += text;
    else this.#rows.push({ stream, text });
    this.#length += text.length;
    if (this.#length > 2 * WAITING_MAX || this.#rows.length > 100) this.#omitOldest();
    this.#sendSoon();
  }

  /** Sends the rest without waiting for its delivery. */
  end(): void {
    clock.clear(this.#timer);
    if (this.#rows.length > 0) void this.#send(this.#take());
  }

  #sendSoon(): void {
    if (this.#isSending || this.#timer !== undefined) return;
    const waitMs = Math.max(0, this.#lastSentAt + FRAME_EVERY_MS - clock.monotonic());
    this.#timer = clock.setTimeout(() => {
      this.#timer = undefined;
      this.#isSending = true;
      this.#lastSentAt = clock.monotonic();
      void this.#send(this.#take()).finally(() => {
        this.#isSending = false;
        if (this.#rows.length > 0) this.#sendSoon();
      });
    }, waitMs);
  }

  #take(): Row[] {
    this.#omitOldest();
    const rows = this.#rows;
    const first = rows[0];
    if (this.#omitted > 0 && first !== undefined) {
      first.text = `[… ${this.#omitted} characters are not shown …]\n${first.text}`;
    }
    this.#rows = [];
    this.#length = 0;
    this.#omitted = 0;
    return rows;
  }

  #omitOldest(): void {
    while (this.#length > WAITING_MAX || this.#rows.length > 100) {
      const [first] = this.#rows;
      if (first === undefined) return;
      const excess = this.#length - WAITING_MAX;
      const kept =
        this.#rows.length > 100 ? '' : lastCharacters(first.text, Math.max(0, first.text.length - excess));
      this.#omitted += first.text.length - kept.length;
      this.#length -= first.text.length - kept.length;
      if (kept === '') this.#rows.shift();
      else first.text = kept;
    }
  }
}

/** Two streams of this size fit into one message, even if characters take six bytes. */
const STREAM_MAX_BYTES = 400_000;

/** Keeps the end of one stream as text. */
export class CapturedOutput {
  readonly #decoder = new StringDecoder('utf8');
  #parts: string[] = [];
  #length = 0;
  #isCut = false;

  /** Returns the text that these bytes complete. */
  add(bytes: Buffer): string {
    return this.#keep(plainText(this.#decoder.write(bytes)));
  }

  end(): { text: string; isCut: boolean } {
    this.#keep(plainText(this.#decoder.end()));
    const all = this.#parts.join('');
    const text = lastBytes(lastCharacters(all, SCRIPT_OUTPUT_MAX), STREAM_MAX_BYTES);
    return { text, isCut: this.#isCut || text.length < all.length };
  }

  #keep(text: string): string {
    this.#parts.push(text);
    this.#length += text.length;
    // Trimming rarely is cheaper: a script that prints byte by byte makes many small parts.
    if (this.#length > 2 * SCRIPT_OUTPUT_MAX) {
      const kept = lastCharacters(this.#parts.join(''), SCRIPT_OUTPUT_MAX);
      this.#parts = [kept];
      this.#length = kept.length;
      this.#isCut = true;
    }
    return text;
  }
}
