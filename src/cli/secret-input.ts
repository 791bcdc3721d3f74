import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';

/** Secrets never come from arguments, which every user of the machine can read in the list of processes. */

/** The first line of a file, or of the standard input. */
export async function secretFrom(source: { file: string } | 'stdin'): Promise<string> {
  const whole = source === 'stdin' ? await text(process.stdin) : await readFile(source.file, 'utf8');
  const [line = ''] = whole.split(/\r?\n/, 1);
  return line;
}

/** Asks on the terminal, without showing what is typed; `undefined` where there is no terminal. */
export async function askSecret(question: string): Promise<string | undefined> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return undefined;
  process.stderr.write(question);
  const unseen = new Writable({ write: (_text, _encoding, done) => done() });
  const terminal = createInterface({ input: process.stdin, output: unseen, terminal: true });
  try {
    return await new Promise((resolve, reject) => {
      terminal.once('line', resolve);
      terminal.once('SIGINT', () => reject(new Error('Cancelled.')));
      terminal.once('close', () => reject(new Error('Cancelled.')));
    });
  } finally {
    terminal.close();
    process.stderr.write('\n');
  }
}
