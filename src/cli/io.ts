import path from 'node:path';
import { type Readable, Writable } from 'node:stream';
import { type Values, environmentOfProcess } from '../config/environment.ts';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';

/**
 * The environment of a command: the first argument of every command. Commands use neither `process` nor its streams
 * directly, so tests can run them in their own process.
 */
export interface CommandIo {
  env: Values;
  /** The working directory, from which relative file names start. */
  cwd: string;
  stdin: InputStream;
  stdout: OutputStream;
  stderr: OutputStream;
  /**
   * Calls the listener once, at Ctrl+C, SIGTERM or SIGHUP; without a listener, these end the program at once, and so does a
   * second signal. Returns a function that removes the listener.
   */
  onInterrupt(listener: () => void): () => void;
}

/** In raw mode a terminal gives every key as it is typed, and obeys none itself. */
export type InputStream = Readable & { readonly isTTY?: boolean; setRawMode?(isRaw: boolean): unknown };

/** A terminal has its size in `columns` and `rows`, and the event `resize`. */
export type OutputStream = Writable & {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
};

/** Dependencies for adding commands to the program. */
export interface CommandLine {
  io: CommandIo;
  /** Makes an action of Commander from work that returns the exit code, or nothing if that is 0. */
  action: <Given extends unknown[]>(
    work: (...given: Given) => Promise<number | void>,
  ) => (...given: Given) => Promise<void>;
}

/** The path of a file name that the user has given. */
export const fileOf = ({ cwd }: Pick<CommandIo, 'cwd'>, name: string): string => path.resolve(cwd, name);

/** Ctrl+C, the order to end, and the end of the terminal. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** The input and output of this process. */
export function processIo(): CommandIo {
  return {
    env: environmentOfProcess(),
    cwd: process.cwd(),
    // The commands that read it open it.
    get stdin() {
      return process.stdin;
    },
    stdout: process.stdout,
    stderr: process.stderr,
    onInterrupt(listener) {
      const remove = () => {
        for (const signal of SIGNALS) process.off(signal, onSignal);
      };
      const onSignal = () => {
        remove();
        listener();
      };
      for (const signal of SIGNALS) process.on(signal, onSignal);
      return remove;
    },
  };
}

/** Resolves when everything that was written to the stream has been flushed, or can no longer be. */
export const written = (stream: Writable): Promise<void> =>
  new Promise((resolve) => {
    stream.write('', () => resolve());
  });

/**
 * The text of a file that a user has written: in UTF-8, or in UTF-16 with its mark, as Windows PowerShell writes it. The
 * mark is no part of the text. Throws for other bytes, which would silently become other characters.
 */
export async function textOf(io: Pick<CommandIo, 'cwd'>, file: string): Promise<string> {
  const bytes = await readFile(fileOf(io, file));
  const isUtf16 = bytes[0] === 0xff && bytes[1] === 0xfe;
  try {
    return new TextDecoder(isUtf16 ? 'utf-16le' : 'utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new Error(`${file} is not text in UTF-8.`, { cause });
  }
}

/** Secrets never come from arguments, which every user of the machine can read in the list of processes. */

/** The first line of a file, or of the standard input. */
export async function secretFrom(io: CommandIo, source: { file: string } | 'stdin'): Promise<string> {
  const whole = source === 'stdin' ? await text(io.stdin) : await textOf(io, source.file);
  const [line = ''] = whole.split(/\r?\n/, 1);
  return line;
}

/** The user was not asked, or has not answered. */
export class Unanswered extends Error {
  readonly reason: 'no terminal' | 'interrupted' | 'ended';

  constructor(reason: Unanswered['reason']) {
    super(reason === 'no terminal' ? 'There is no terminal to ask at.' : 'Cancelled.');
    this.name = 'Unanswered';
    this.reason = reason;
  }
}

/**
 * Asks on the terminal. Throws `Unanswered`.
 * @param question  text without anything that a terminal obeys
 */
export async function ask(io: CommandIo, question: string, { isSecret = false } = {}): Promise<string> {
  if (io.stdin.isTTY !== true || io.stderr.isTTY !== true) throw new Unanswered('no terminal');
  const unseen = new Writable({ write: (_text, _encoding, done) => done() });
  const terminal = createInterface({
    input: io.stdin,
    output: isSecret ? unseen : io.stderr,
    terminal: true,
    prompt: question,
  });
  if (isSecret) io.stderr.write(question);
  else terminal.prompt();
  try {
    return await new Promise((resolve, reject) => {
      terminal.once('line', resolve);
      terminal.once('SIGINT', () => reject(new Unanswered('interrupted')));
      terminal.once('close', () => reject(new Unanswered('ended')));
    });
  } finally {
    terminal.close();
    if (isSecret) io.stderr.write('\n');
  }
}

/** Asks on the terminal without showing the input; `undefined` if there is no terminal. */
export async function askSecret(io: CommandIo, question: string): Promise<string | undefined> {
  try {
    return await ask(io, question, { isSecret: true });
  } catch (error) {
    if (error instanceof Unanswered && error.reason === 'no terminal') return undefined;
    throw error;
  }
}
