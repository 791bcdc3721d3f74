import { mkdirSync } from 'node:fs';
import { mkdir, open, rm, stat, readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { UpgradableComponent, waitAfterFailure, UpdateStatus } from '../../../protocol/index.ts';
import { hasCode, writePrivateJson, readPrivateJson, syncFolder, appendLine } from '../files/private-file.ts';
import { ReleaseVersion } from './layout.ts';

/** The folder for all upgrade files of the agent and its watchdog. */
export const upgradesIn = (dataDir: string): string => path.join(dataDir, 'upgrades');

const RESERVE = 'reserve';
const RESERVE_BYTES = 64 * 1024;

/** Reserves a few kilobytes for the files of an upgrade, which must be written even if the disk is full. */
export async function keepReserve(dataDir: string): Promise<void> {
  const folder = upgradesIn(dataDir);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const file = path.join(folder, RESERVE);
  if ((await stat(file).catch(() => undefined))?.size === RESERVE_BYTES) return;
  try {
    const handle = await open(file, 'w', 0o600);
    try {
      await handle.writeFile(Buffer.alloc(RESERVE_BYTES, 1));
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch {
    // The disk is full already. The next start tries again.
    await rm(file, { force: true });
  }
}

/** Writes a file. On a full disk, the reserve makes room for it. */
export async function writeNote(dataDir: string, name: string, value: unknown): Promise<void> {
  await withReserve(dataDir, () => writePrivateJson(path.join(upgradesIn(dataDir), name), value));
}

export async function withReserve<T>(dataDir: string, write: () => T | Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (!hasCode(error, 'ENOSPC')) throw error;
    await rm(path.join(upgradesIn(dataDir), RESERVE), { force: true });
    return write();
  }
}

/**
 * The phases of upgrades that the server has not confirmed yet, each in a file of its own, because the agent and the
 * watchdog both write and send them. A phase that is sent twice counts once: it carries the id of its attempt.
 */
const STATUSES_KEPT = 100;
const STATUS_FILE = /^\d{12}-[\w-]+\.json$/;

const statusesIn = (dataDir: string) => path.join(upgradesIn(dataDir), 'statuses');

interface WaitingStatus {
  name: string;
  status: UpdateStatus;
}

export async function putStatus(
  dataDir: string,
  status: UpdateStatus & { attemptId: string },
): Promise<void> {
  const folder = statusesIn(dataDir);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const names = await namesIn(folder);
  const end = `-${status.attemptId}-${status.phase}.json`;
  if (names.some((name) => name.endsWith(end))) return;
  for (const old of names.slice(0, Math.max(0, names.length - STATUSES_KEPT + 1))) {
    await rm(path.join(folder, old), { force: true });
  }
  const number = Number(names.at(-1)?.slice(0, 12) ?? 0) + 1;
  const file = path.join(folder, `${String(number).padStart(12, '0')}${end}`);
  await withReserve(dataDir, () => writePrivateJson(file, UpdateStatus.parse(status)));
}

/** In the order in which they happened. */
export async function waitingStatuses(dataDir: string): Promise<WaitingStatus[]> {
  const folder = statusesIn(dataDir);
  const found: WaitingStatus[] = [];
  for (const name of await namesIn(folder)) {
    const status = UpdateStatus.safeParse(
      await readPrivateJson(path.join(folder, name)).catch(() => undefined),
    );
    if (status.success) found.push({ name, status: status.data });
    else await rm(path.join(folder, name), { force: true });
  }
  return found;
}

/** Removes the phases that the server has confirmed. */
export async function dropStatuses(dataDir: string, names: readonly string[]): Promise<void> {
  for (const name of names) await rm(path.join(statusesIn(dataDir), name), { force: true });
}

async function namesIn(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => []);
  return names.filter((name) => STATUS_FILE.test(name)).sort();
}

/**
 * The releases that could not be installed, so that an offer that comes with each heartbeat is not tried each time. A
 * temporary failure is retried soon, and a bad release only rarely.
 */
const Failure = z.object({
  sha256: z.string(),
  /** For people; absent in the file of an earlier release. */
  component: z.string().optional(),
  version: z.string().optional(),
  /** The id of the failed attempt. Its end may be processed again, but counts once. */
  attemptId: z.string().optional(),
  count: z.number().int().positive(),
  code: z.string(),
  message: z.string(),
  at: z.number(),
  isTemporary: z.boolean(),
});
type Failure = z.infer<typeof Failure>;
const Failures = z.object({ failures: z.array(Failure) });

const FAILURES_KEPT = 20;
const FAILURES_FILE = 'failures.json';

/** When the release may be tried again; in the past: now. If the clock was set back, nothing is delayed. Pure. */
export function nextTryAt(failure: Failure, now: number): number {
  return failure.at > now ? now : failure.at + waitAfterFailure(failure);
}

export async function failuresOf(dataDir: string): Promise<Failure[]> {
  const kept = await readPrivateJson(path.join(upgradesIn(dataDir), FAILURES_FILE)).catch(() => undefined);
  return Failures.safeParse(kept).data?.failures ?? [];
}

/** @returns how long the release is not tried again, for the report to the server */
export async function recordFailure(
  dataDir: string,
  { attemptId, ...failure }: Required<Omit<Failure, 'count' | 'at' | 'attemptId'>> & { attemptId?: string },
  now = clock.now(),
): Promise<{ retryInSeconds: number }> {
  const all = await failuresOf(dataDir);
  const before = all.find(({ sha256 }) => sha256 === failure.sha256);
  if (attemptId !== undefined && before?.attemptId === attemptId) return waitOf(before, now);
  const others = all.filter(({ sha256 }) => sha256 !== failure.sha256);
  const isSameKind = before?.isTemporary === failure.isTemporary;
  const count = isSameKind && before !== undefined ? before.count + 1 : 1;
  const recorded: Failure = { ...failure, ...(attemptId === undefined ? {} : { attemptId }), count, at: now };
  await writeNote(dataDir, FAILURES_FILE, { failures: [...others.slice(1 - FAILURES_KEPT), recorded] });
  return waitOf(recorded, now);
}

const waitOf = (failure: Failure, now: number) => ({
  retryInSeconds: Math.max(0, Math.ceil((nextTryAt(failure, now) - now) / 1000)),
});

export async function forgetFailure(dataDir: string, sha256: string): Promise<void> {
  const all = await failuresOf(dataDir);
  const others = all.filter((each) => each.sha256 !== sha256);
  if (others.length < all.length) await writeNote(dataDir, FAILURES_FILE, { failures: others });
}

export const TrialEnd = z.object({
  how: z.string(),
  isSilent: z.boolean(),
  output: z.array(z.string()).max(20),
});

export type TrialEnd = z.infer<typeof TrialEnd>;

/** A release on trial. The file exists from before the switch until the end of the trial is completely recorded. */
export const Trial = z.object({
  component: UpgradableComponent,
  version: ReleaseVersion,
  /** The release to return to if this one fails; `null`: the agent embedded in the executable. */
  from: ReleaseVersion.nullable(),
  /** The release that `from` reported, for people; it is also known for the embedded one. */
  fromVersion: z.string().max(50),
  attemptId: z.uuid(),
  sha256: z.string(),
  /** Written before each start, to limit the starts of a release that crashes the machine. */
  starts: z.number().int().nonnegative(),
  /** The checks that the former release has passed, and that this one must pass as well. */
  before: z.array(z.string().max(50)).max(20).optional(),
  /** The exits that the watchdog has observed. */
  ends: z.array(TrialEnd).max(10).optional(),
  /** The decision. Its steps are repeated until the file is gone. */
  verdict: z
    .discriminatedUnion('is', [
      z.object({ is: z.literal('healthy') }),
      z.object({ is: z.literal('rolled_back'), code: z.string(), message: z.string() }),
    ])
    .optional(),
});
export type Trial = z.infer<typeof Trial>;

const TRIAL_FILE = 'trial.json';

/** `undefined` if nothing is on trial, or if the file is invalid. */
export async function readTrial(dataDir: string): Promise<Trial | undefined> {
  const kept = await readPrivateJson(path.join(upgradesIn(dataDir), TRIAL_FILE)).catch(() => undefined);
  return Trial.safeParse(kept).data;
}

export const writeTrial = (dataDir: string, trial: Trial): Promise<void> =>
  writeNote(dataDir, TRIAL_FILE, trial);

export async function removeTrial(dataDir: string): Promise<void> {
  await rm(path.join(upgradesIn(dataDir), TRIAL_FILE), { force: true });
  await syncFolder(upgradesIn(dataDir));
}

/** The attempt that was begun last and has not ended: it keeps its id across restarts of the agent. */
const Attempt = z.object({
  attemptId: z.uuid(),
  component: z.string(),
  version: z.string(),
  sha256: z.string(),
});
export type Attempt = z.infer<typeof Attempt>;

const ATTEMPT_FILE = 'attempt.json';

export async function readAttempt(dataDir: string): Promise<Attempt | undefined> {
  const kept = await readPrivateJson(path.join(upgradesIn(dataDir), ATTEMPT_FILE)).catch(() => undefined);
  return Attempt.safeParse(kept).data;
}

export const writeAttempt = (dataDir: string, attempt: Attempt): Promise<void> =>
  writeNote(dataDir, ATTEMPT_FILE, attempt);

export async function removeAttempt(dataDir: string): Promise<void> {
  await rm(path.join(upgradesIn(dataDir), ATTEMPT_FILE), { force: true });
}

/**
 * The history of this machine's upgrades, for people: one line per step, written when the step is done. No program
 * reads it to decide, because a power failure can come between a step and its line; the other files decide.
 */
export const UPGRADE_STEPS = [
  // By the agent.
  'download_started',
  'download_checked',
  'staged',
  'install_requested',
  // By the watchdog.
  'trial_recorded',
  'switched',
  'start_counted',
  'healthy',
  'proven',
  'settled',
  'rolling_back',
  'switched_back',
  'rolled_back',
] as const;
export type UpgradeStep = (typeof UPGRADE_STEPS)[number];

const Line = z.object({
  at: z.string(),
  step: z.enum(UPGRADE_STEPS),
  component: UpgradableComponent,
  version: z.string(),
  attemptId: z.string(),
  detail: z.string().optional(),
});
export type JournalLine = z.infer<typeof Line>;

const LIMITS = { maxBytes: 256 * 1024, formerFiles: 1, isDurable: true };
const fileIn = (dataDir: string) => path.join(upgradesIn(dataDir), 'upgrades.journal');

/** Appends a line. Failures are ignored: a journal that cannot be written must not stop an upgrade or a roll-back. */
export function note(dataDir: string, line: Omit<JournalLine, 'at'>): void {
  const json = JSON.stringify({ at: clock.date().toISOString(), ...line });
  try {
    mkdirSync(upgradesIn(dataDir), { recursive: true, mode: 0o700 });
    appendLine(fileIn(dataDir), `${checksum(json)} ${json}`, LIMITS);
  } catch {
    // The disk is full, or the rights are missing. The other files are what counts.
  }
}

/** The lines that can be read, the oldest first. */
export async function readJournal(dataDir: string): Promise<JournalLine[]> {
  const text = await readFile(fileIn(dataDir), 'utf8').catch(() => '');
  return text.split('\n').flatMap((line) => {
    const json = line.slice(9);
    if (line.slice(0, 9) !== `${checksum(json)} `) return [];
    const found = Line.safeParse(JSON.parse(json));
    return found.success ? [found.data] : [];
  });
}

const checksum = (json: string) => crc32(json).toString(16).padStart(8, '0');
