import { type ChildProcess, spawn } from 'node:child_process';
import os from 'node:os';
import { Readable, Writable } from 'node:stream';
import { clock, type Timer } from '../../clock.ts';
import {
  destinationOptions,
  type AddSecret,
  repositoryAddress,
  type Repository,
  s3Credentials,
  secretsOf,
} from '../destination.ts';
import { type Engine, engineEnvironment } from '../engine.ts';
import { EngineError } from '../engine-error.ts';
import { ErrorOutput, type OnErrorLine, type RetryWatch, LineSplitter } from './error-output.ts';
import { SecretFiles } from './secret-files.ts';

/** Options of every operation. */
export interface RunOptions {
  /** Aborting interrupts restic, which removes its locks, and kills it after some time. */
  signal?: AbortSignal | undefined;
  /** Called with the process, which leads its own group, so that a later process can end it if this one is killed. */
  onStart?: ((pid: number) => void) | undefined;
  uploadKiBps?: number | undefined;
  downloadKiBps?: number | undefined;
  processors?: number | undefined;
  /**
   * The address of a proxy, for encrypted connections to a remote destination. It is visible in the environment of
   * restic, so its password must be useless to others.
   */
  proxy?: string | undefined;
}

/** For a program that outlives the work that has started it. */
export type RunOptionsWithoutSignal = Omit<RunOptions, 'signal'>;

interface EngineCall extends RunOptions {
  repository: Repository;
  /** The repository that `copy` and `init` read from. */
  from?: Repository;
  args: (addSecret: AddSecret) => readonly string[];
  /** Does not lock the repository: for reading data that no other operation can remove meanwhile. */
  noLock?: boolean;
  hasInput?: boolean;
  /** The engine outlives this process: it runs at normal priority, and its output goes to this descriptor. */
  outlives?: { errors: number };
  /**
   * Returns whether the line is about one file, and therefore not about the whole run. Paths are as `pathText` writes
   * them.
   */
  onErrorLine?: OnErrorLine | undefined;
  /** Set by operations that report progress: ends the run if the destination stays unreachable. */
  retries?: RetryWatch;
}

interface RunningEngine {
  stdout: Readable;
  stdin: Writable;
  /** Interrupts the program. */
  stop(): void;
  /** Never rejects. Resolves when the program has ended and its output was read. */
  ended: Promise<EngineEnd>;
}

export interface EngineEnd {
  exitCode: number | null;
  wasCancelled: boolean;
  /** The failure derived from the exit code and the messages. */
  failure(): EngineError;
}

/** Starts restic. The caller must read its standard output to the end, or stop the program. */
export function startEngine(engine: Engine, call: EngineCall): RunningEngine {
  if (call.signal?.aborted === true) throw new EngineError('CANCELLED');
  const files = new SecretFiles(engine.secretFolder, engine.secretPlace);
  const mask = (text: string) =>
    maskSecrets(text, [
      ...secretsOf(call.repository),
      ...(call.from === undefined ? [] : secretsOf(call.from)),
    ]);
  let child: ChildProcess;
  try {
    const { args, credentialsFile } = commandLine(call, (content) => files.add(content));
    const { outlives } = call;
    const [program, ...before] = outlives === undefined ? engine.program.command : [engine.program.path];
    const outputs =
      outlives === undefined ? (['pipe', 'pipe'] as const) : (['ignore', outlives.errors] as const);
    child = spawn(program, [...before, ...args], {
      stdio: [call.hasInput === true ? 'pipe' : 'ignore', ...outputs, ...files.descriptors],
      env: engineEnvironment({ ...engine, credentialsFile, processors: call.processors, proxy: call.proxy }),
      cwd: engine.cacheFolder,
      // Its own group: Ctrl+C for our program does not reach it, and it can be ended as a whole.
      detached: process.platform !== 'win32',
      windowsHide: true,
    });
  } catch (error) {
    void files.remove();
    throw error;
  }
  files.close();
  if (call.outlives !== undefined) child.unref();
  return follow(engine, call, { child, files, mask });
}

interface Started {
  child: ChildProcess;
  files: SecretFiles;
  mask: (text: string) => string;
}

function follow(engine: Engine, call: EngineCall, { child, files, mask }: Started): RunningEngine {
  let startFailure: Error | undefined;
  let isStopped = false;
  let force: Timer | undefined;

  const interrupt = () => {
    if (force !== undefined) return;
    signalGroup(child, 'SIGINT');
    force = clock.setTimeout(() => signalGroup(child, 'SIGKILL'), engine.killAfterMs);
  };
  const stop = () => {
    isStopped = true;
    interrupt();
  };
  const errors = new ErrorOutput(call.onErrorLine, interrupt, call.retries);
  call.signal?.addEventListener('abort', stop, { once: true });
  child.stderr?.on('data', (bytes: Buffer) => errors.push(bytes));
  // A program that has ended no longer reads its input; its exit code has the reason.
  child.stdin?.on('error', () => {});

  if (child.pid !== undefined) {
    if (process.platform === 'win32') lowerPriority(child.pid);
    call.onStart?.(child.pid);
  }

  const ended = new Promise<EngineEnd>((resolve) => {
    const finish = (exitCode: number | null) => {
      clock.clear(force);
      call.signal?.removeEventListener('abort', stop);
      errors.end();
      const wasCancelled = isStopped;
      const failure = () => {
        const detail = mask(errors.text) || mask(startFailure?.message ?? '');
        if (wasCancelled) return new EngineError('CANCELLED', { detail });
        if (startFailure !== undefined || isNotFound(exitCode, errors.text)) {
          return new EngineError('ENGINE_MISSING', { detail });
        }
        return new EngineError(errors.codeFor(exitCode), {
          detail: detail || `restic ended with ${exitCode ?? 'a signal'}.`,
        });
      };
      void files.remove().finally(() => resolve({ exitCode, wasCancelled, failure }));
    };
    child.once('error', (error) => {
      // With a pid, this is a signal that failed because the process had just ended.
      if (child.pid !== undefined) return;
      startFailure = error;
      finish(null);
    });
    // A caller that stopped the program no longer reads its output, and `close` would wait for that.
    child.once('exit', () => {
      if (isStopped) child.stdout?.destroy();
    });
    child.once('close', (exitCode) => {
      if (child.pid !== undefined) finish(exitCode);
    });
  });

  return {
    stdout: child.stdout ?? Readable.from([]),
    stdin: child.stdin ?? new Writable(),
    stop,
    ended,
  };
}

function commandLine(call: EngineCall, addSecret: AddSecret) {
  const { repository, from, noLock, uploadKiBps, downloadKiBps } = call;
  const credentials = new Set(
    [repository, from].flatMap((each) => (each === undefined ? [] : (s3Credentials(each.destination) ?? []))),
  );
  if (credentials.size > 1) {
    throw new EngineError('DESTINATION_DENIED', {
      message: 'restic cannot copy between two S3 destinations with different credentials.',
    });
  }
  const [content] = credentials;
  const args = [
    '--json',
    ...opens('', repository, addSecret),
    ...(from === undefined ? [] : destinationOptions(from.destination)),
    ...(noLock === true || repository.isReadOnly === true ? ['--no-lock'] : []),
    ...(uploadKiBps === undefined ? [] : ['--limit-upload', String(uploadKiBps)]),
    ...(downloadKiBps === undefined ? [] : ['--limit-download', String(downloadKiBps)]),
    ...call.args(addSecret),
    ...(from === undefined ? [] : opens('from-', from, addSecret)),
  ];
  return { args, credentialsFile: content === undefined ? undefined : addSecret(content) };
}

function opens(prefix: '' | 'from-', repository: Repository, addSecret: AddSecret): string[] {
  const { destination, password, keyHint } = repository;
  return [
    `--${prefix}repository-file`,
    addSecret(repositoryAddress(destination)),
    `--${prefix}password-file`,
    addSecret(password),
    ...(keyHint === undefined ? [] : [`--${prefix}key-hint`, keyHint]),
    ...(prefix === '' ? destinationOptions(destination) : []),
  ];
}

/** Exit codes of the priority programs if they cannot find the program to start. */
const isNotFound = (exitCode: number | null, text: string) =>
  (exitCode === 126 || exitCode === 127) && /nice: .*restic/i.test(text);

function lowerPriority(pid: number): void {
  try {
    os.setPriority(pid, os.constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // It has already ended.
  }
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    if (process.platform === 'win32') child.kill(signal);
    else process.kill(-child.pid, signal);
  } catch {
    // It ended between the check and the signal.
  }
}

const ADDRESS = /\b([a-z][a-z0-9+.-]*:\/\/)([^\s/@"']+)@/gi;
/** Control characters, except line breaks and tabs. */
const CONTROL = /[^\P{Cc}\n\t]/gu;
const MAX_LENGTH = 2000;

/** Removes secrets and the credentials in addresses from a program's text, so that it can be logged. */
export function maskSecrets(text: string, secrets: readonly string[]): string {
  const ordered = secrets.filter((secret) => secret !== '').sort((a, b) => b.length - a.length);
  const masked = ordered.reduce((rest, secret) => rest.replaceAll(secret, '***'), text);
  return masked.replace(ADDRESS, '$1***@').replace(CONTROL, ' ').slice(0, MAX_LENGTH);
}

/** Three ways to read restic's output, each with bounded memory. */

const LINE_MAX = 1024 * 1024;
const DOCUMENT_MAX = 64 * 1024 * 1024;

/** Calls `onLine` with each line of the standard output, in order. If it throws, the program is stopped. */
export async function runLines(
  engine: Engine,
  call: EngineCall,
  onLine: (line: string) => void | Promise<void>,
): Promise<EngineEnd> {
  const running = startEngine(engine, call);
  await consume(running, async () => {
    for await (const line of linesOf(running)) await onLine(line);
  });
  return running.ended;
}

/** The whole standard output. Throws if it is larger than `maxBytes`, or if restic fails. */
export async function runDocument(
  engine: Engine,
  call: EngineCall,
  maxBytes = DOCUMENT_MAX,
): Promise<string> {
  const running = startEngine(engine, call);
  const parts: Uint8Array[] = [];
  await consume(running, async () => {
    let length = 0;
    for await (const bytes of chunksOf(running)) {
      length += bytes.byteLength;
      if (length > maxBytes) {
        throw new EngineError('ENGINE_FAILED', { detail: `restic printed more than ${maxBytes} bytes.` });
      }
      parts.push(bytes);
    }
  });
  const end = await running.ended;
  if (end.exitCode !== 0) throw end.failure();
  return Buffer.concat(parts).toString('utf8');
}

/** Streams the standard output. Leaving the loop stops the program; its failure is thrown at the end. */
export async function* streamBytes(engine: Engine, call: EngineCall): AsyncGenerator<Uint8Array, void> {
  const running = startEngine(engine, call);
  yield* complete(running, chunksOf(running));
}

/** The same in lines. */
export async function* streamLines(engine: Engine, call: EngineCall): AsyncGenerator<string, void> {
  const running = startEngine(engine, call);
  yield* complete(running, linesOf(running));
}

async function* complete<T>(running: RunningEngine, items: AsyncIterable<T>): AsyncGenerator<T, void> {
  let isComplete = false;
  try {
    yield* items;
    isComplete = true;
  } finally {
    if (!isComplete) {
      running.stop();
      await running.ended;
    }
  }
  const end = await running.ended;
  if (end.exitCode !== 0) throw end.failure();
}

async function consume(running: RunningEngine, read: () => Promise<void>): Promise<void> {
  try {
    await read();
  } catch (error) {
    running.stop();
    await running.ended;
    throw error;
  }
}

async function* linesOf(running: RunningEngine): AsyncGenerator<string, void> {
  const splitter = new LineSplitter(LINE_MAX);
  for await (const bytes of chunksOf(running)) for (const { text } of splitter.push(bytes)) yield text;
  for (const { text } of splitter.end()) yield text;
}

/** An output that was closed because the program was stopped ends here; `ended` has the reason. */
async function* chunksOf({ stdout, ended }: RunningEngine): AsyncGenerator<Uint8Array, void> {
  try {
    for await (const bytes of stdout) {
      if (bytes instanceof Uint8Array) yield bytes;
    }
  } catch (error) {
    const end = await ended;
    if (end.exitCode === 0 && !end.wasCancelled) throw error;
  }
}
