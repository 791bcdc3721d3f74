import path from 'node:path';
import { clock } from '../../../clock.ts';
import type { CommandOutput, CommandPayload } from '../../../protocol/index.ts';
import { readOutput } from '../../os/child-process.ts';
import { beginStream, dismissJob, listJobs, streamJob, type QmpClient } from '../../os/qemu/qmp-client.ts';
import { nodeOf, type GuestDefinition } from '../../os/qemu/guest-definition.ts';
import { findGuest, withMonitor } from '../../os/qemu/guest-process.ts';
import { AGENT_STOPS, type DurableContext } from '../../work/handler.ts';
import { targetError, timedOut } from '../../repository/local-engine.ts';
import { type InstantBoots, withDisks } from './instant-boots.ts';
import { cancelled, FULL, machineError, machineMissing } from './machine-error.ts';
import { type MachineParts, needQemu } from './new-guest.ts';

type Payload = CommandPayload<'backup.vm-migrate'>;
type Output = CommandOutput<'backup.vm-migrate'>;
type Context = Pick<DurableContext<'backup.vm-migrate'>, 'signal' | 'progress'>;

const POLL_MS = 500;

/**
 * Makes a running machine independent of its snapshot: the remaining content is copied into its overlays while it runs
 * and writes. qemu does the copy, which continues if the agent ends; a later command waits for its end.
 */
export const migrate = (parts: MachineParts, boots: InstantBoots) => ({
  run: (payload: Payload, { signal, progress }: DurableContext<'backup.vm-migrate'>): Promise<Output> =>
    boots.longTurn(payload.restoreId, signal, async (signal) => {
      const context = { signal, progress };
      const guest = await parts.guests.read(payload.restoreId);
      if (guest === undefined) throw machineMissing();
      const startedAt = clock.monotonic();
      const { snapshotId } = guest;
      let copied = 0;
      if (snapshotId !== undefined) {
        const isRunning = (await findGuest(guest)) !== undefined;
        copied = await (isRunning ? copyRunning : copyStopped)({ parts, boots, guest, payload, context });
        await boots.releaseUnused(snapshotId);
      }
      return { copiedBytes: copied, seconds: (clock.monotonic() - startedAt) / 1000 };
    }),
});

interface Work {
  parts: MachineParts;
  boots: InstantBoots;
  guest: GuestDefinition;
  payload: Payload;
  context: Context;
}

/** Returns how many bytes were copied. */
async function copyRunning({ parts, boots, guest, payload, context }: Work): Promise<number> {
  const until = clock.monotonic() + payload.timeoutSeconds * 1000;
  const wanted = guest.disks.map((_disk, index) => nodeOf(index));
  let copied = 0;
  for (;;) {
    if (context.signal.aborted || clock.monotonic() > until) {
      // If the agent stops, the copy continues.
      if (context.signal.reason !== AGENT_STOPS) await cancelCopies(guest, wanted);
      throw context.signal.aborted ? cancelled() : timedOut(payload.timeoutSeconds);
    }
    // The header of an overlay names its base until everything is copied. Asking qemu itself sometimes crashes version
    // 7.2.
    const open = await boots.withoutFinishedBases(guest);
    const withBase = new Set(
      open.disks.flatMap(({ base }, index) => (base === undefined ? [] : nodeOf(index))),
    );
    const { isComplete, done, total } = await withMonitor(guest, (monitor) =>
      advance(monitor, wanted, withBase),
    );
    copied = Math.max(copied, done);
    context.progress({
      phase: 'copying',
      done: copied,
      ...(total > 0 ? { total, percent: Math.min(100, Math.floor((1000 * done) / total) / 10) } : {}),
    });
    if (isComplete) break;
    await clock.sleep(POLL_MS, { signal: context.signal }).catch(() => {});
  }
  await parts.guests.write(
    withDisks(
      guest,
      guest.disks.map(({ base: _copied, ...disk }) => disk),
    ),
  );
  return copied;
}

/** Starts the missing copies and records those that have ended. Throws if one has failed. */
async function advance(monitor: QmpClient, wanted: readonly string[], withBase: ReadonlySet<string>) {
  const jobs = new Map((await listJobs(monitor)).map((job) => [job.id, job]));
  let [isComplete, done, total] = [true, 0, 0];
  for (const node of wanted) {
    const job = jobs.get(streamJob(node));
    done += job?.done ?? 0;
    total += job?.total ?? 0;
    if (job?.status === 'concluded') {
      await dismissJob(monitor, job.id);
      if (job.error !== undefined) throw copyFailed(job.error);
    }
    if (!withBase.has(node)) continue;
    isComplete = false;
    if (job === undefined) await beginStream(monitor, node);
  }
  return { isComplete, done, total };
}

async function cancelCopies(guest: GuestDefinition, wanted: readonly string[]): Promise<void> {
  await withMonitor(guest, async (monitor) => {
    for (const node of wanted) {
      const id = streamJob(node);
      await monitor.execute('job-cancel', { id }).catch(() => {});
      for (let round = 0; round < 20; round += 1) {
        const job = (await listJobs(monitor)).find((each) => each.id === id);
        if (job === undefined) break;
        if (job.status === 'concluded') await dismissJob(monitor, id);
        else await clock.sleep(POLL_MS);
      }
    }
  }).catch(() => {});
}

/** For a stopped machine: uses qemu-img, which keeps the base until everything is copied. */
async function copyStopped({ parts, boots, guest, payload, context }: Work): Promise<number> {
  if (guest.snapshotId !== undefined && !(await parts.mounts.isHealthy(guest.snapshotId))) {
    throw machineError(
      'SNAPSHOT_UNREADABLE',
      'The machine has stopped and lost its snapshot. Start it again first.',
    );
  }
  const { image } = await needQemu();
  let copied = 0;
  for (const [index, { file, base }] of guest.disks.entries()) {
    if (base === undefined) continue;
    context.progress({ phase: 'copying', path: nodeOf(index), done: copied });
    const words = ['rebase', '-q', '-f', 'qcow2', '-b', '', `file:${path.join(guest.folder, file)}`];
    const timeoutMs = payload.timeoutSeconds * 1000;
    await readOutput(image, words, { signal: context.signal, timeoutMs }).catch((error: unknown) => {
      throw copyFailed(error instanceof Error ? error.message : String(error));
    });
    if (context.signal.aborted) throw cancelled();
    copied += base.sizeBytes;
  }
  await parts.guests.write(await boots.withoutFinishedBases(guest));
  return copied;
}

const copyFailed = (why: string) =>
  /no space left/i.test(why)
    ? targetError('TARGET_FULL', FULL)
    : machineError('HYPERVISOR_FAILED', `The disk could not be copied: ${why}`);
