import { z } from 'zod';
import { clock } from '../../clock.ts';
import { hasDoneItsWork } from '../../protocol/index.ts';
import type { CommandIo } from '../io.ts';
import { confirm, devices, endsAll, NAMES_MAX } from './act.ts';
import { type Api, apiOf } from './api.ts';
import { followJobs } from './follow-jobs.ts';
import { aborted, interruptible } from './hub-connection.ts';
import { createJobReport, type FollowedJob, type JobEnd } from './job-report.ts';
import { localTime } from './local-time.ts';
import { scriptNamed } from './names.ts';
import { createOutput, type Output, table } from './output.ts';
import { EXIT, type Profile, profileNamed, RemoteFailure } from './profiles.ts';
import { secretsOf } from './script-values.ts';

/** Runs of scripts: started, listed, followed to their end, cancelled and repeated. */

const Run = z.object({
  id: z.uuid(),
  scriptName: z.string(),
  state: z.string(),
  counts: z.object({ completed: z.number(), failed: z.number(), timedOut: z.number(), expired: z.number() }),
  total: z.number(),
  secretNames: z.array(z.string()),
  createdByName: z.string().nullable(),
  createdAt: z.string(),
  expiresAt: z.string(),
  error: z.string().nullable(),
});
export type Run = z.infer<typeof Run>;

const RunDevice = z.object({
  deviceId: z.uuid(),
  orgId: z.uuid(),
  deviceName: z.string(),
  outcome: z.string(),
  commandId: z.uuid().nullable(),
  refusal: z.object({ code: z.string(), message: z.string() }).nullable(),
});
type RunDevice = z.infer<typeof RunDevice>;

const pageOf = <S extends z.ZodType>(one: S) =>
  z.object({ data: z.array(one), pagination: z.object({ total: z.number() }) });
const PAGE = 100;

interface Connection {
  profile?: string;
  json?: boolean;
}

/** `muster scripts runs` */
export async function listRuns(
  io: CommandIo,
  options: Connection & { script?: string; limit: number },
): Promise<number> {
  const output = createOutput(io, options);
  const api = apiOf(await profileNamed(io, options.profile));
  const script = options.script === undefined ? undefined : await scriptNamed(api, options.script);
  const query = { scriptId: script?.id, limit: String(options.limit) };
  const { data, pagination } = await api.get('/script-runs', pageOf(Run), query);
  if (output.isJson) {
    for (const run of data) output.json(run);
    return 0;
  }
  const rows = data.map((run) => [
    localTime(run.createdAt),
    run.scriptName,
    run.createdByName ?? '',
    run.state,
    `${run.counts.completed} of ${run.total}`,
    run.id,
  ]);
  const titles = ['STARTED', 'SCRIPT', 'BY', 'STATE', 'SUCCEEDED', 'ID'];
  if (rows.length > 0) for (const line of table(titles, rows, output.width)) output.line(line);
  output.remark(`${data.length} of ${pagination.total === 1 ? '1 run' : `${pagination.total} runs`}`);
  return 0;
}

/** `muster scripts follow <run...>`: looks again at runs that were left. */
export async function followRuns(
  io: CommandIo,
  ids: readonly string[],
  options: Connection,
): Promise<number> {
  const output = createOutput(io, options);
  const profile = await profileNamed(io, options.profile);
  const api = apiOf(profile);
  const runs: Run[] = [];
  for (const id of new Set(ids)) runs.push(await readRun(api, id));
  return interruptible(io, (interrupted) => follow({ profile, output, runs, interrupted }));
}

const readRun = (api: Api, id: string): Promise<Run> => api.get(`/script-runs/${id}`, Run);

export interface RepeatOptions extends Connection {
  failed?: boolean;
  secret?: string[];
  detach?: boolean;
  yes?: boolean;
}

/** The outcomes after which `--failed` takes a device again, as the server does. */
const FAILED_OUTCOMES = ['failed', 'timed_out', 'expired'];

/** `muster scripts again <run>`: the same version with the same parameters. */
export async function repeatRun(io: CommandIo, id: string, options: RepeatOptions): Promise<number> {
  const output = createOutput(io, options);
  const profile = await profileNamed(io, options.profile);
  const api = apiOf(profile);
  const former = await readRun(api, id);
  const found = await devicesOf(api, former);
  const again =
    options.failed === true ? found.filter(({ outcome }) => FAILED_OUTCOMES.includes(outcome)) : found;
  if (again.length === 0) {
    throw new RemoteFailure(
      EXIT.failed,
      options.failed === true
        ? 'The script has failed on none of the devices of the run that you may see.'
        : 'The run has no devices that you may see.',
    );
  }
  const given = options.secret ?? [];
  const asked = former.secretNames.filter((name) => !given.some((text) => text.split('=')[0] === name));
  const secrets = await secretsOf(io, [...given, ...asked]);
  const does = `given the script ${former.scriptName} to run again`;
  if (again.length > 1 && options.yes !== true) {
    const names = again.map(({ deviceName }) => deviceName);
    await confirm(io, names, does);
  }
  return interruptible(io, async (interrupted) => {
    const run = await api.postOnce(`/script-runs/${id}/run-again`, Run, {
      which: options.failed === true ? 'failed' : 'all',
      ...(Object.keys(secrets).length === 0 ? {} : { secrets }),
    });
    return follow({ profile, output, runs: [run], interrupted, isLeft: options.detach === true });
  });
}

interface Following {
  profile: Profile;
  output: Output;
  runs: readonly Run[];
  interrupted: AbortSignal;
  /** The ids of devices that were offline when the runs were started. */
  offline?: ReadonlySet<string>;
  /** The runs are left as soon as it is known which devices have been given the script. */
  isLeft?: boolean;
}

/** Follows runs to their end. However it ends before that, it says how to go on. */
export async function follow({
  profile,
  output,
  runs,
  interrupted,
  offline,
  isLeft = false,
}: Following): Promise<number> {
  const left = new AbortController();
  for (const signal of [interrupted, output.unread]) void aborted(signal).then(() => left.abort());
  const ends = new Map<string, JobEnd>();
  let started: Started | undefined;
  const openCount = () => (started === undefined ? undefined : started.jobs.length - ends.size);
  try {
    started = await whenStarted(apiOf(profile), runs, left.signal);
    reportStart(output, runs, started, offline);
    if (started.jobs.length === 0) return interrupted.aborted ? EXIT.interrupted : EXIT.finding;
    const { jobs, refused } = started;
    if (isLeft) {
      sayHowToGoOn(output, runs, jobs.length);
      return refused.length === 0 ? 0 : EXIT.finding;
    }
    await followJobs({ profile, jobs, report: createJobReport(output, jobs), left: left.signal }, ends);
  } catch (error) {
    if (output.unread.aborted) return 0;
    // The script goes on, whatever has become of the sign-in or of the connection.
    sayHowToGoOn(output, runs, openCount());
    if (interrupted.aborted) return EXIT.interrupted;
    throw error;
  }
  if (output.unread.aborted) return 0;
  if (openCount() !== 0) {
    sayHowToGoOn(output, runs, openCount());
    return EXIT.interrupted;
  }
  const all = started.jobs.length + started.refused.length;
  const succeeded = [...ends.values()].filter(hasDoneItsWork).length;
  output.remark(`${succeeded} of ${devices(all)} succeeded.`);
  return succeeded === all ? 0 : EXIT.finding;
}

/** A device that was given no command. */
interface Refused {
  deviceId: string;
  hostname: string;
  code: string;
  message: string;
}

interface Started {
  jobs: (FollowedJob & { expiresAt: string })[];
  refused: Refused[];
}

/** The longest pause before it is looked again whether all commands of a run were added. */
const LOOK_AGAIN_MS = 2000;

/** What became of runs on each device, as soon as the server has added their commands. */
async function whenStarted(api: Api, runs: readonly Run[], left: AbortSignal): Promise<Started> {
  const started: Started = { jobs: [], refused: [] };
  for (const { id } of runs) {
    let run = await readRun(api, id);
    for (let pauseMs = 100; run.state === 'starting'; pauseMs = Math.min(2 * pauseMs, LOOK_AGAIN_MS)) {
      await clock.sleep(pauseMs, { signal: left });
      run = await readRun(api, id);
    }
    for (const { deviceId, orgId, deviceName: hostname, commandId, refusal } of await devicesOf(api, run)) {
      if (commandId !== null) {
        started.jobs.push({ id: commandId, deviceId, orgId, hostname, expiresAt: run.expiresAt });
      } else {
        const { code, message } = refusal ?? {
          code: 'NOT_STARTED',
          message: run.error ?? 'the run was cancelled',
        };
        started.refused.push({ deviceId, hostname, code, message });
      }
    }
  }
  return started;
}

async function devicesOf(api: Api, { id }: Run): Promise<RunDevice[]> {
  const found: RunDevice[] = [];
  for (let page = 1; ; page++) {
    const query = { limit: String(PAGE), page: String(page) };
    const { data, pagination } = await api.get(`/script-runs/${id}/devices`, pageOf(RunDevice), query);
    found.push(...data);
    if (data.length < PAGE || found.length >= pagination.total) return found;
  }
}

function reportStart(
  output: Output,
  runs: readonly Run[],
  { jobs, refused }: Started,
  offline?: ReadonlySet<string>,
): void {
  const [run] = runs;
  if (output.isJson) {
    for (const one of refused) output.json({ type: 'refused', ...one });
    output.json({
      type: 'started',
      name: run?.scriptName,
      runIds: runs.map(({ id }) => id),
      jobs: jobs.map(({ id, deviceId, hostname }) => ({ id, deviceId, hostname })),
    });
    return;
  }
  for (const { hostname, message } of refused) output.remark(`${hostname}: not started: ${message}`);
  const waiting = jobs.filter(({ deviceId }) => offline?.has(deviceId) === true);
  for (const { hostname, expiresAt } of waiting.slice(0, NAMES_MAX)) {
    output.remark(`${hostname}: offline. It runs the script when it is back, until ${localTime(expiresAt)}.`);
  }
  const more = waiting.length - NAMES_MAX;
  if (more > 0) output.remark(`${devices(more)} more: offline likewise.`);
  output.remark(
    `${run?.scriptName ?? 'The script'} was started on ${devices(jobs.length)}. Ctrl+C leaves it alone.`,
  );
}

/** @param open  the number of devices that have not ended, if it is known */
function sayHowToGoOn(output: Output, runs: readonly Run[], open: number | undefined): void {
  const ids = runs.map(({ id }) => id).join(' ');
  output.remark(open === undefined ? 'The script goes on.' : `The script goes on on ${devices(open)}.`);
  output.remark(`To look again: muster scripts follow ${ids}`);
  output.remark(`To cancel it:  muster scripts cancel ${ids}`);
}

/** How many devices one request may name. */
const DEVICES_MAX = 1000;
const StartedRun = Run.extend({ unknownDeviceIds: z.array(z.uuid()) });

/**
 * Starts a script on devices: one run, or several if there are more devices than a request may name.
 * @returns the runs, also if a later one was refused: its devices are among the failed
 */
export async function startRuns(
  api: Api,
  scriptId: string,
  targets: readonly { id: string; hostname: string }[],
  how: { parameters: Record<string, string>; secrets: Record<string, string>; interrupted: AbortSignal },
): Promise<{ runs: Run[]; failed: Refused[] }> {
  const { parameters, secrets, interrupted } = how;
  const runs: Run[] = [];
  const failed: Refused[] = [];
  for (let at = 0; at < targets.length && !interrupted.aborted; at += DEVICES_MAX) {
    const batch = targets.slice(at, at + DEVICES_MAX);
    try {
      const { unknownDeviceIds, ...run } = await api.postOnce(`/scripts/${scriptId}/runs`, StartedRun, {
        target: { deviceIds: batch.map(({ id }) => id) },
        ...(Object.keys(parameters).length === 0 ? {} : { parameters }),
        ...(Object.keys(secrets).length === 0 ? {} : { secrets }),
      });
      runs.push(run);
      for (const { id, hostname } of batch) {
        if (!unknownDeviceIds.includes(id)) continue;
        failed.push({
          deviceId: id,
          hostname,
          code: 'NOT_FOUND',
          message: 'There is no such device any more.',
        });
      }
    } catch (error) {
      // What was started before goes on, and is followed.
      if (!(error instanceof RemoteFailure) || runs.length === 0) throw error;
      const { message } = error;
      for (const { id, hostname } of batch) {
        failed.push({ deviceId: id, hostname, code: 'NOT_STARTED', message });
      }
      if (endsAll(error)) break;
    }
  }
  return { runs, failed };
}
