import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type { Values } from '../config/area.ts';
import { environmentOfProcess } from '../config/environment.ts';

/**
 * What a command has of the process that runs it: the first argument of every command. Commands use neither `process`
 * nor its streams themselves, so that a test runs them in its own process.
 */
export interface CommandIo {
  env: Values;
  /** The working directory, from which relative file names start. */
  cwd: string;
  stdin: Readable & { readonly isTTY?: boolean };
  stdout: OutputStream;
  stderr: OutputStream;
  /**
   * Calls the listener once, at Ctrl+C or SIGTERM, which end the program at once where there is no listener. So does the
   * second signal. Returns a function that removes the listener.
   */
  onInterrupt(listener: () => void): () => void;
}

/** A terminal has a width in `columns`. */
export type OutputStream = Writable & { readonly isTTY?: boolean; readonly columns?: number };

/** What commands are added to the program with. */
export interface CommandLine {
  io: CommandIo;
  /** Makes an action of Commander from work that returns the exit code, or nothing where that is 0. */
  action: <Given extends unknown[]>(
    work: (...given: Given) => Promise<number | void>,
  ) => (...given: Given) => Promise<void>;
}

/** The file that a name given by the user means. */
export const fileOf = ({ cwd }: Pick<CommandIo, 'cwd'>, name: string): string => path.resolve(cwd, name);

/** Of the process itself. */
export function processIo(): CommandIo {
  return {
    env: environmentOfProcess(),
    cwd: process.cwd(),
    // Opened by the commands that read it.
    get stdin() {
      return process.stdin;
    },
    stdout: process.stdout,
    stderr: process.stderr,
    onInterrupt(listener) {
      const remove = () => {
        process.off('SIGINT', onSignal);
        process.off('SIGTERM', onSignal);
      };
      const onSignal = () => {
        remove();
        listener();
      };
      process.on('SIGINT', onSignal);
      process.on('SIGTERM', onSignal);
      return remove;
    },
  };
}

/** Resolves when everything that was written to the stream before has left it, or cannot leave it any more. */
export const written = (stream: Writable): Promise<void> =>
  new Promise((resolve) => {
    stream.write('', () => resolve());
  });
