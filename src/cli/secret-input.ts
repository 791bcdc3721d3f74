import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type CommandIo, fileOf } from './io.ts';

/** Secrets never come from arguments, which every user of the machine can read in the list of processes. */

/** The first line of a file, or of the standard input. */
export async function secretFrom(io: CommandIo, source: { file: string } | 'stdin'): Promise<string> {
  const whole = source === 'stdin' ? await text(io.stdin) : await readFile(fileOf(io, source.file), 'utf8');
  const [line = ''] = whole.split(/\r?\n/, 1);
  return line;
}

/** Asks on the terminal, without showing what is typed; `undefined` where there is no terminal. */
export async function askSecret(io: CommandIo, question: string): Promise<string | undefined> {
  if (io.stdin.isTTY !== true || io.stderr.isTTY !== true) return undefined;
  io.stderr.write(question);
  const unseen = new Writable({ write: (_text, _encoding, done) => done() });
  const terminal = createInterface({ input: io.stdin, output: unseen, terminal: true });
  try {
    return await new Promise((resolve, reject) => {
      terminal.once('line', resolve);
      terminal.once('SIGINT', () => reject(new Error('Cancelled.')));
      terminal.once('close', () => reject(new Error('Cancelled.')));
    });
  } finally {
    terminal.close();
    io.stderr.write('\n');
  }
}
