import {
  isFinal,
  JobOutput,
  type JobsSubscribe,
  JobsSnapshot,
  hasDoneItsWork,
  JobUpdate,
  scriptFailure,
} from '../../protocol/index.ts';
import type { CommandIo } from '../io.ts';
import { EXIT, RemoteFailure, profileNamed } from './profiles.ts';
import {
  aborted,
  connectAgain,
  connectToHub,
  type HubConnection,
  interruptible,
  isLoss,
} from './hub-connection.ts';
import { localSeconds, localTime } from './local-time.ts';
import { createOutput, type Output, visible, visibleLines, fitted } from './output.ts';

/** `muster jobs watch`: follows commands, backups and other long-running work. */

export interface WatchOptions {
  org?: string;
  device?: string;
  job?: string;
  once?: boolean;
  /** How many seconds a lost connection is retried. */
  reconnect: number;
  profile?: string;
  json?: boolean;
}

export async function watchJobs(io: CommandIo, options: WatchOptions): Promise<number> {
  const { org, device, job } = options;
  if ([org, device, job].filter((given) => given !== undefined).length > 1) {
    throw new RemoteFailure(EXIT.failed, 'Give at most one of --org, --device and --job.');
  }
  const output = createOutput(io, options);
  const profile = await profileNamed(io, options.profile);
  const filter: JobsSubscribe = {
    ...(org === undefined ? {} : { orgId: org }),
    ...(device === undefined ? {} : { deviceId: device }),
    ...(job === undefined ? {} : { jobId: job }),
  };
  return interruptible(io, async (interrupted) => {
    let hub: HubConnection | undefined = await connectToHub(profile);
    while (hub !== undefined) {
      const watching = watch(hub, filter, options, output);
      try {
        return await Promise.race([
          watching,
          aborted(interrupted).then(() => EXIT.interrupted),
          aborted(output.unread).then(() => 0),
        ]);
      } catch (error) {
        if (!isLoss(error) || options.reconnect === 0) throw error;
        output.remark(`${error.message} Trying again for ${options.reconnect} s.`);
      } finally {
        hub.close();
      }
      hub = await connectAgain(profile, options.reconnect * 1000, interrupted);
      if (hub !== undefined) output.remark('Connected again.');
    }
    return EXIT.interrupted;
  });
}

/** Returns the exit code if the watch has an end of its own: one job that ends, or `--once`. */
async function watch(
  hub: HubConnection,
  filter: JobsSubscribe,
  { once, job }: WatchOptions,
  output: Output,
): Promise<number> {
  let end = (_code: number) => {};
  const ended = new Promise<number>((resolve) => (end = resolve));
  const show = (update: JobUpdate) => {
    if (output.isJson) output.json({ type: 'job', ...update });
    else output.line(fitted(jobLine(update), output.width));
    if (job !== undefined && isFinal(update.state)) end(hasDoneItsWork(update) ? 0 : EXIT.finding);
  };
  hub.on('job:update', JobUpdate, show);
  hub.on('job:output', JobOutput, (rows) => {
    if (output.isJson) output.json({ type: 'output', ...rows });
    else for (const { text } of rows.rows) output.piece(visibleLines(text));
  });
  const { jobs } = await hub.ask('jobs:subscribe', filter, JobsSnapshot);
  if (job !== undefined && jobs.length === 0) {
    throw new RemoteFailure(EXIT.failed, `There is no job ${job} that you may see.`);
  }
  // The server sends the newest first; they are printed last.
  for (const update of jobs.toReversed()) show(update);
  if (once === true) return 0;
  return Promise.race([ended, hub.lost]);
}

function jobLine({
  at,
  state,
  kind,
  deviceId = '',
  percent,
  phase,
  message,
  id,
  stalledSince,
  exitCode,
}: JobUpdate): string {
  const done = percent == null ? '' : `${Math.floor(percent)} %`;
  const said = [
    phase === state ? '' : phase,
    message ?? '',
    scriptFailure({ state, exitCode }) ?? '',
    stalledSince === undefined ? '' : `stands still since ${localTime(stalledSince)}`,
  ];
  const parts = [
    localSeconds(at),
    state.padEnd(10),
    kind.padEnd(18),
    done.padStart(5),
    deviceId,
    id,
    ...said.filter((text) => text !== ''),
  ];
  return visible(parts.join('  '));
}
