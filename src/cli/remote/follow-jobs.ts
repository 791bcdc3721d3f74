import { z } from 'zod';
import { clock } from '../../clock.ts';
import { isFinal, JobOutput, JobsSnapshot, type JobState, JobUpdate } from '../../protocol/index.ts';
import { type Api, apiOf, Refused } from './api.ts';
import { aborted, connectAgain, connectToHub, type HubConnection, isLoss } from './hub-connection.ts';
import type { FollowedJob, JobEnd, JobReport } from './job-report.ts';
import type { Profile } from './profiles.ts';

/** Follows jobs of devices to their end, through lost connections. */

/** A connection may have this many subscriptions, and the output of a job needs one of its own. */
const LIVE_MAX = 20;
const RECONNECT_MS = 120_000;
/** How many states are read at once. */
const READ_AT_ONCE = 4;
const RATE_PAUSE_MS = 5000;

/** The parts of a command that say how it has ended. */
const Ended = z.object({
  status: z.string(),
  reason: z.string().nullish(),
  error: z.object({ message: z.string() }).nullish(),
  output: z.unknown(),
});
const ScriptOutput = z.object({
  exitCode: z.number().nullable(),
  stdout: z.string(),
  stderr: z.string(),
  truncated: z.boolean(),
});

interface Following {
  profile: Profile;
  jobs: readonly FollowedJob[];
  report: JobReport;
  /** The user goes, or nobody reads on. */
  left: AbortSignal;
}

/** @param ends  receives how each job has ended; jobs are missing if the user has left, or it fails before */
export async function followJobs(following: Following, ends: Map<string, JobEnd>): Promise<void> {
  const { profile, jobs, report, left } = following;
  let hub: HubConnection | undefined = await connectToHub(profile);
  while (hub !== undefined && !left.aborted) {
    try {
      await Promise.race([follow(hub, following, ends), aborted(left)]);
      if (ends.size === jobs.length) break;
    } catch (error) {
      if (!isLoss(error)) throw error;
      report.remark(`${error.message} Trying again for ${RECONNECT_MS / 1000} s.`);
    } finally {
      hub.close();
    }
    if (left.aborted) break;
    hub = await connectAgain(profile, RECONNECT_MS, left);
    if (hub !== undefined) report.remark('Connected again.');
  }
}

/** Resolves when all jobs have ended. */
async function follow(
  hub: HubConnection,
  { profile, jobs, report, left }: Following,
  ends: Map<string, JobEnd>,
): Promise<void> {
  const api = apiOf(profile);
  const byId = new Map(jobs.map((job) => [job.id, job]));
  let resolve = () => {};
  let reject = (_error: unknown) => {};
  const allEnded = new Promise<void>((...both) => ([resolve, reject] = both));
  // It is also waited for below.
  allEnded.catch(() => undefined);
  // One job after the other: what two have written does not mix, and the server is asked for one at a time.
  let reporting: Promise<void> = Promise.resolve();
  let isOver = false;
  const seen = new Set<string>();
  const end = (job: FollowedJob, ending: JobEnd) => {
    if (isOver || seen.has(job.id) || ends.has(job.id)) return;
    seen.add(job.id);
    reporting = reporting
      .then(async () => {
        if (left.aborted || isOver) return;
        await reportRest(api, job, report, left);
        ends.set(job.id, ending);
        report.ended(job, ending, { ended: ends.size, of: jobs.length });
        if (ends.size === jobs.length) resolve();
      })
      .catch(reject);
  };
  const show = (update: JobUpdate) => {
    const job = byId.get(update.id);
    if (job === undefined || seen.has(job.id) || ends.has(job.id)) return;
    if (isFinal(update.state)) end(job, endingOf(update.state, update.exitCode, update.message));
    else report.goesOn(job, update);
  };
  hub.on('job:update', JobUpdate, show);
  hub.on('job:output', JobOutput, ({ id, seq, rows }) => {
    const job = byId.get(id);
    if (job !== undefined && !isOver && !ends.has(id)) report.output(job, seq, rows);
  });
  try {
    await Promise.race([subscribe(hub, api, { jobs, left, ends, show, end }), allEnded, hub.lost]);
    await Promise.race([allEnded, hub.lost]);
  } finally {
    // What is being reported is reported once, also where the next connection begins with the same jobs.
    isOver = true;
    await reporting;
  }
}

/** Subscribes to the jobs that have not ended, and reads those that a subscription says nothing about. */
async function subscribe(
  hub: HubConnection,
  api: Api,
  parts: Pick<Following, 'jobs' | 'left'> & {
    ends: ReadonlyMap<string, JobEnd>;
    show: (update: JobUpdate) => void;
    end: (job: FollowedJob, ending: JobEnd) => void;
  },
): Promise<void> {
  const { jobs, left, ends, show, end } = parts;
  const open = jobs.filter(({ id }) => !ends.has(id));
  const orgIds = [...new Set(open.map(({ orgId }) => orgId))];
  const filters =
    open.length <= LIVE_MAX
      ? open.map(({ id }) => ({ jobId: id }))
      : orgIds.length <= LIVE_MAX
        ? orgIds.map((orgId) => ({ orgId }))
        : [{}];
  const known = new Set<string>();
  for (const filter of filters) {
    const snapshot = await hub.ask('jobs:subscribe', filter, JobsSnapshot);
    for (const update of snapshot.jobs) {
      known.add(update.id);
      show(update);
    }
  }
  // A snapshot has the open jobs, and not all of them if they are very many.
  const unknown = open.filter(({ id }) => !known.has(id));
  const reading = Array.from({ length: READ_AT_ONCE }, async () => {
    for (let job = unknown.pop(); job !== undefined && !left.aborted; job = unknown.pop()) {
      const { status, output, reason, error } = await readEnded(api, job.id, left);
      const state = JobUpdate.shape.state.safeParse(status);
      if (!state.success || !isFinal(state.data)) continue;
      const exitCode = ScriptOutput.safeParse(output).data?.exitCode;
      const message = error?.message ?? reason ?? undefined;
      end(job, endingOf(state.data, exitCode, message));
    }
  });
  await Promise.all(reading);
}

const endingOf = (
  state: JobState,
  exitCode: number | null | undefined,
  message: string | undefined,
): JobEnd => ({
  state,
  ...(exitCode === undefined ? {} : { exitCode }),
  ...(message === undefined ? {} : { message }),
});

/** What a job has written is stored when it ends: what was not seen live follows. */
async function reportRest(api: Api, job: FollowedJob, report: JobReport, left: AbortSignal): Promise<void> {
  const { output } = await readEnded(api, job.id, left);
  const script = ScriptOutput.safeParse(output);
  if (script.success) report.rest(job, script.data);
}

/** Waits while the key has sent too many requests. */
async function readEnded(api: Api, id: string, left: AbortSignal): Promise<z.infer<typeof Ended>> {
  for (;;) {
    try {
      return await api.get(`/commands/${id}`, Ended);
    } catch (error) {
      if (!(error instanceof Refused) || error.code !== 'RATE_LIMITED' || left.aborted) throw error;
      await clock.sleep(RATE_PAUSE_MS, { signal: left }).catch(() => undefined);
    }
  }
}
