import path from 'node:path';
import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { waitAfterFailure } from '../../../protocol/index.ts';
import { readPrivateJson } from '../files/private-file.ts';
import { upgradesIn, writeNote } from './upgrade-files.ts';

/**
 * The releases that could not be installed, so that an offer that comes with each heartbeat is not tried with each
 * heartbeat. What may pass by itself is tried again soon, and a release that was bad once only now and then.
 */
const Failure = z.object({
  sha256: z.string(),
  /** For people; absent in the file of an earlier release. */
  component: z.string().optional(),
  version: z.string().optional(),
  /** The attempt that failed, where its end may be carried out again: it counts once. */
  attemptId: z.string().optional(),
  count: z.number().int().positive(),
  code: z.string(),
  message: z.string(),
  at: z.number(),
  isTemporary: z.boolean(),
});
export type Failure = z.infer<typeof Failure>;
const Failures = z.object({ failures: z.array(Failure) });

const KEEP = 20;
const NAME = 'failures.json';

/** When the release may be tried again; in the past: now. A clock that was set back delays nothing. Pure. */
export function nextTryAt(failure: Failure, now: number): number {
  return failure.at > now ? now : failure.at + waitAfterFailure(failure);
}

export async function failuresOf(dataDir: string): Promise<Failure[]> {
  const kept = await readPrivateJson(path.join(upgradesIn(dataDir), NAME)).catch(() => undefined);
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
  await writeNote(dataDir, NAME, { failures: [...others.slice(1 - KEEP), recorded] });
  return waitOf(recorded, now);
}

const waitOf = (failure: Failure, now: number) => ({
  retryInSeconds: Math.max(0, Math.ceil((nextTryAt(failure, now) - now) / 1000)),
});

export async function forgetFailure(dataDir: string, sha256: string): Promise<void> {
  const all = await failuresOf(dataDir);
  const others = all.filter((each) => each.sha256 !== sha256);
  if (others.length < all.length) await writeNote(dataDir, NAME, { failures: others });
}
