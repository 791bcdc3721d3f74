import type { CommandIo } from '../../io.ts';
import { visible, visibleJson } from './terminal-text.ts';

/** Standard output holds what was asked for, standard error what is said about it. */
export interface Output {
  readonly isJson: boolean;
  /** Of the terminal; `undefined` where the output goes elsewhere, and is not cut. */
  readonly width: number | undefined;
  /**
   * Aborted when nobody reads standard output any more: `muster devices | head` has what it wanted when `head` ends. The
   * command then ends quietly, with success, and what it runs on devices ends with it.
   */
  readonly unread: AbortSignal;
  /** Text that is safe already (`visible`). */
  line(text: string): void;
  /** A piece of such text, which need not end with its line. */
  piece(text: string): void;
  json(value: unknown): void;
  /** A remark, which may hold foreign text. */
  remark(text: string): void;
}

export function createOutput(
  { stdout, stderr }: CommandIo,
  { json = false }: { json?: boolean | undefined },
): Output {
  const unread = new AbortController();
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    unread.abort();
  });
  let isAtStart = true;
  const write = (text: string) => {
    if (text === '') return;
    stdout.write(text);
    isAtStart = text.endsWith('\n');
  };
  return {
    isJson: json,
    width: stdout.isTTY === true ? stdout.columns : undefined,
    unread: unread.signal,
    line: (text) => write(`${isAtStart ? '' : '\n'}${text}\n`),
    piece: write,
    json: (value) => write(`${visibleJson(value)}\n`),
    // After what was written before it: nobody who reads no further is to hear of the rest.
    remark: (text) =>
      void stdout.write('', (error) => {
        if (error == null) stderr.write(`${visible(text)}\n`);
      }),
  };
}
