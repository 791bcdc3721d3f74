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
import type { Engine } from '../engine.ts';
import { EngineError } from '../engine-error.ts';
import { maskSecrets } from '../output/mask.ts';
import { engineEnvironment } from './environment.ts';
import { ErrorOutput, type OnErrorLine } from './error-output.ts';
import type { RetryWatch } from './retry-watch.ts';
import { SecretFiles } from './secret-files.ts';

/** What each operation accepts beside its own input. */
export interface RunOptions {
  /** Aborting it interrupts restic, which removes its locks, and kills it after some time. */
  signal?: AbortSignal | undefined;
  /** The process, which leads a group of its own: so that a later process of ours can end one that was left behind. */
  onStart?: ((pid: number) => void) | undefined;
  uploadKiBps?: number | undefined;
  downloadKiBps?: number | undefined;
  processors?: number | undefined;
  /**
   * The address of a proxy, for encrypted connections to a destination that is not on this machine. It is visible in
   * the environment of restic, so a password in it must be worth nothing to others.
   */
  proxy?: string | undefined;
}

/** Of a program that is not ended with the work that has started it. */
export type RunOptionsWithoutSignal = Omit<RunOptions, 'signal'>;

export interface EngineCall extends RunOptions {
  repository: Repository;
  /** The repository that `copy` and `init` read from. */
  from?: Repository;
  args: (addSecret: AddSecret) => readonly string[];
  /** Without locking the repository: for reading what no other operation can take away meanwhile. */
  noLock?: boolean;
  hasInput?: boolean;
  /** It outlives this process: it runs at the usual priority, and what it prints goes to this descriptor. */
  outlives?: { errors: number };
  /** Returns whether the line is about one file, and so not about the whole run. Paths in it are as `pathText` has them. */
  onErrorLine?: OnErrorLine | undefined;
  /** Where the work says how far it is: ends it when the destination stays away. */
  retries?: RetryWatch;
}

export interface RunningEngine {
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
  /** The failure that the exit code and the texts describe. */
  failure(): EngineError;
}

/** Starts restic. Its standard output has to be read to the end, or the program stopped. */
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
      // A group of its own: a Ctrl+C for our program does not reach it, and it can be ended as a whole.
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
  // A program that has ended does not read its input any more; its exit code has the reason.
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
      // With a pid this is the failure of a signal to a process that has just ended.
      if (child.pid !== undefined) return;
      startFailure = error;
      finish(null);
    });
    // A caller that stopped the program no longer reads its output, and `close` waits for that.
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

/** The programs that lower the priority use these codes where they do not find what they should start. */
const isNotFound = (exitCode: number | null, text: string) =>
  (exitCode === 126 || exitCode === 127) && /nice: .*restic/i.test(text);

function lowerPriority(pid: number): void {
  try {
    os.setPriority(pid, os.constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // It has ended already.
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
