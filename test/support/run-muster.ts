import { tmpdir } from 'node:os';
import { PassThrough, Writable } from 'node:stream';
import type { CommandIo, OutputStream } from '../../src/cli/io.ts';
import { TEST_ENCRYPTION_KEY, TEST_JWT_SECRET } from './test-app.ts';
import type { TestDatabase } from './test-postgres.ts';

/** Commands of the operator, run in the process of the test. */

export interface Ran {
  code: number;
  out: string;
  err: string;
}

export interface MusterOptions {
  /** The whole environment of the command, which sees nothing of the test's own. */
  env?: Readonly<Record<string, string>>;
  stdin?: string;
  /** The command runs at a terminal of this size, where the test types. */
  terminal?: { columns: number; rows: number };
}

export interface RunningMuster {
  /** What was written so far. */
  out(): string;
  err(): string;
  /** As Ctrl+C does. */
  interrupt(): void;
  /** As a person does at the terminal. */
  type(text: string): void;
  resize(size: { columns: number; rows: number }): void;
  /** Whether the terminal is in raw mode. */
  isRaw(): boolean;
  /** The window of the terminal is closed. */
  hangUp(): void;
  ended: Promise<Ran>;
}

/** `muster <arguments>`, as an operator runs it. */
export const runMuster = (args: readonly string[], options: MusterOptions = {}): Promise<Ran> =>
  startMuster(args, options).ended;

/** The same for a command that the test follows while it runs. */
export const startMuster = (args: readonly string[], options: MusterOptions = {}): RunningMuster =>
  startCommand((io) => run(args, io), options);

/**
 * Imported when it is first called: Mocha loads test files by `require` where Node has `require(esm)`, and the commands,
 * which are imported on demand, would then have other instances of classes than the program that catches their errors.
 */
export const run = async (args: readonly string[], io: CommandIo): Promise<number> =>
  (await import('../../src/cli/run.ts')).run(args, io);

/** Runs any command that takes `CommandIo`. */
export function startCommand(
  command: (io: CommandIo) => Promise<number>,
  { env = {}, stdin = '', terminal }: MusterOptions = {},
): RunningMuster {
  const [out, err] = [recordingStream(), recordingStream()];
  const isTTY = terminal !== undefined;
  let isRaw = false;
  const input = Object.assign(new PassThrough(), {
    isTTY,
    setRawMode: (raw: boolean) => {
      isRaw = raw;
    },
  });
  if (!isTTY) input.end(stdin);
  const screen = Object.assign(out.stream, { isTTY, ...terminal });
  const listeners = new Set<() => void>();
  const ended = command({
    env,
    // Nothing may depend on the folder of the test.
    cwd: tmpdir(),
    stdin: input,
    stdout: screen,
    stderr: Object.assign(err.stream, { isTTY }),
    onInterrupt(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  }).then((code) => ({ code, out: out.text(), err: err.text() }));
  return {
    out: out.text,
    err: err.text,
    interrupt() {
      if (listeners.size === 0) {
        throw new Error('The command does not listen for Ctrl+C, which would end it.');
      }
      for (const listener of listeners) listener();
      listeners.clear();
    },
    type: (text) => void input.write(text),
    resize(size) {
      Object.assign(screen, size).emit('resize');
    },
    isRaw: () => isRaw,
    hangUp: () => void input.end(),
    ended,
  };
}

function recordingStream(): { stream: OutputStream; text: () => string } {
  let text = '';
  const stream = new Writable({
    decodeStrings: false,
    write(piece: string, _encoding, done) {
      text += piece;
      done();
    },
  });
  return { stream, text: () => text };
}

/** The environment of a server on a database of the tests, for commands beside it. */
export const environmentOf = (
  { ownerUrl, appUrl, auditAdminUrl = '' }: TestDatabase,
  dataDir: string,
): Record<string, string> => ({
  DATA_DIR: dataDir,
  DATABASE_URL: ownerUrl,
  DATABASE_URL_APP: appUrl,
  AUDIT_ADMIN_DATABASE_URL: auditAdminUrl,
  JWT_SECRET: TEST_JWT_SECRET,
  SECRET_ENCRYPTION_KEY: TEST_ENCRYPTION_KEY,
});
