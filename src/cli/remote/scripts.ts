import { z } from 'zod';
import { hasDoneItsWork } from '../../protocol/index.ts';
import { ask, type CommandIo, secretFrom, Unanswered } from '../io.ts';
import {
  type ActOptions,
  confirm,
  devices,
  dryRun,
  endsAll,
  failureOf,
  isAboutDevices,
  NAMES_MAX,
} from './act.ts';
import { type Api, apiOf, Refusal } from './api.ts';
import { conditionsOf } from './devices.ts';
import { followJobs } from './follow-jobs.ts';
import { aborted, interruptible } from './hub-connection.ts';
import { createJobReport, type FollowedJob, type JobEnd } from './job-report.ts';
import { localTime } from './local-time.ts';
import { devicesNamed, scriptNamed } from './names.ts';
import { createOutput, type Output, table } from './output.ts';
import { EXIT, type Profile, profileNamed, RemoteFailure } from './profiles.ts';
import { type Target, targetsOf } from './targets.ts';

/** `muster scripts`: runs saved scripts on devices, and follows them to their end. */

const Page = z.object({
  data: z.array(
    z.object({
      id: z.uuid(),
      name: z.string(),
      language: z.string(),
      osTypes: z.array(z.string()),
      updatedAt: z.string(),
    }),
  ),
  pagination: z.object({ total: z.number() }),
});
const PAGE = 100;

export async function listScripts(
  io: CommandIo,
  options: { search?: string; profile?: string; json?: boolean },
): Promise<number> {
  const output = createOutput(io, options);
  const api = apiOf(await profileNamed(io, options.profile));
  const rows: string[][] = [];
  for (let page = 1; !output.unread.aborted; page++) {
    const query = { search: options.search, limit: String(PAGE), page: String(page) };
    const { data, pagination } = await api.get('/scripts', Page, query);
    for (const script of data) {
      const { name, language, osTypes, updatedAt, id } = script;
      if (output.isJson) output.json(script);
      else rows.push([name, language, osTypes.join(','), localTime(updatedAt), id]);
    }
    if (data.length < PAGE || page * PAGE >= pagination.total) break;
  }
  if (output.isJson) return 0;
  const titles = ['NAME', 'LANGUAGE', 'SYSTEMS', 'CHANGED', 'ID'];
  if (rows.length > 0) for (const line of table(titles, rows, output.width)) output.line(line);
  output.remark(rows.length === 1 ? '1 script' : `${rows.length} scripts`);
  return 0;
}

export interface RunOptions extends Omit<ActOptions, 'device'> {
  on?: string[];
  parameter?: string[];
  secret?: string[];
  detach?: boolean;
}

export async function runScript(io: CommandIo, named: string, options: RunOptions): Promise<number> {
  const output = createOutput(io, options);
  const profile = await profileNamed(io, options.profile);
  const conditions = await conditionsOf(io, options);
  const api = apiOf(profile);
  const script = await scriptNamed(api, named);
  const targets = await targetsOf(profile, options.on ?? [], conditions);
  const does = `given the script ${script.name} to run`;
  if (options.dryRun === true) return dryRun(output, targets, does);
  const parameters = Object.fromEntries((options.parameter ?? []).map((text) => pairOf(text, '--parameter')));
  const secrets = await secretsOf(io, options.secret ?? []);
  if (targets.length > 1 && options.yes !== true) await confirm(io, targets, does);
  return interruptible(io, async (interrupted) => {
    const started = await start(api, script.id, targets, { parameters, secrets, interrupted });
    const { jobs } = started;
    reportStart(output, script, started);
    const isWhole = started.failed.length === 0 && jobs.length === targets.length;
    if (jobs.length === 0) return EXIT.finding;
    if (options.detach === true) {
      sayHowToGoOn(output, jobs);
      return isWhole ? 0 : EXIT.finding;
    }
    const code = await followToTheEnd(profile, output, jobs, interrupted);
    return code === 0 && !isWhole ? EXIT.finding : code;
  });
}

/** `muster scripts follow <id...>`: looks again at what was left. */
export async function followScripts(
  io: CommandIo,
  ids: readonly string[],
  options: { profile?: string; json?: boolean },
): Promise<number> {
  const output = createOutput(io, options);
  const profile = await profileNamed(io, options.profile);
  const api = apiOf(profile);
  const jobs: FollowedJob[] = [];
  const Job = z.object({ id: z.uuid(), deviceId: z.uuid(), orgId: z.uuid() });
  for (const id of new Set(ids)) {
    const job = await api.get(`/commands/${id}`, Job);
    const [device] = await devicesNamed(api, job.deviceId);
    jobs.push({ ...job, hostname: device?.hostname ?? job.deviceId });
  }
  return interruptible(io, (interrupted) => followToTheEnd(profile, output, jobs, interrupted));
}

/** `muster jobs cancel <id...>` */
export async function cancelJobs(
  io: CommandIo,
  ids: readonly string[],
  options: { profile?: string; json?: boolean },
): Promise<number> {
  const output = createOutput(io, options);
  const api = apiOf(await profileNamed(io, options.profile));
  let isWhole = true;
  for (const id of new Set(ids)) {
    try {
      const { status } = await api.post(`/commands/${id}/cancel`, z.object({ status: z.string() }), {});
      const said = status === 'cancelled' ? 'cancelled' : 'its device was asked to stop it';
      if (output.isJson) output.json({ id, ok: true, status });
      else output.remark(`${id}: ${said}`);
    } catch (error) {
      if (!(error instanceof RemoteFailure) || endsAll(error)) throw error;
      isWhole = false;
      if (output.isJson) output.json({ id, ok: false, message: error.message });
      else output.remark(`${id}: ${error.message}`);
    }
  }
  return isWhole ? 0 : EXIT.finding;
}

/** Where the records of script runs (`/script-runs`) are, one run takes the place of these commands. */
const Started = z.object({
  executionId: z.uuid(),
  commands: z.array(
    z.object({
      id: z.uuid(),
      deviceId: z.uuid(),
      orgId: z.uuid(),
      waitsForDevice: z.boolean(),
      expiresAt: z.string(),
    }),
  ),
  refused: z.array(Refusal),
});
/** How many devices one request takes. */
const EXECUTE_MAX = 500;

interface Start {
  executionIds: string[];
  jobs: (FollowedJob & { waitsForDevice: boolean; expiresAt: string })[];
  /** Devices on which the script was not started, and why. */
  failed: { deviceId: string; hostname: string; message: string; code?: string }[];
}

async function start(
  api: Api,
  scriptId: string,
  targets: readonly Target[],
  how: { parameters: object; secrets: object; interrupted: AbortSignal },
): Promise<Start> {
  const { parameters, secrets, interrupted } = how;
  const names = new Map(targets.map(({ id, hostname }) => [id, hostname]));
  const started: Start = { executionIds: [], jobs: [], failed: [] };
  const nameOf = (deviceId: string) => names.get(deviceId) ?? deviceId;
  for (let at = 0; at < targets.length && !interrupted.aborted; at += EXECUTE_MAX) {
    const batch = targets.slice(at, at + EXECUTE_MAX);
    try {
      const { executionId, commands, refused } = await api.postOnce(`/scripts/${scriptId}/execute`, Started, {
        deviceIds: batch.map(({ id }) => id),
        ...(Object.keys(parameters).length === 0 ? {} : { parameters }),
        ...(Object.keys(secrets).length === 0 ? {} : { secrets }),
      });
      started.executionIds.push(executionId);
      for (const command of commands) started.jobs.push({ ...command, hostname: nameOf(command.deviceId) });
      for (const one of refused) started.failed.push({ ...one, hostname: nameOf(one.deviceId) });
    } catch (error) {
      if (!(error instanceof RemoteFailure)) throw error;
      // What was started before goes on, and is followed.
      if (started.jobs.length === 0 && !isAboutDevices(error)) throw error;
      for (const { id, hostname } of batch) {
        const { message, code } = failureOf(error, id);
        started.failed.push({ deviceId: id, hostname, message, ...(code === undefined ? {} : { code }) });
      }
      if (endsAll(error)) break;
    }
  }
  return started;
}

function reportStart(
  output: Output,
  { id: scriptId, name }: { id: string; name: string },
  { executionIds, jobs, failed }: Start,
): void {
  if (output.isJson) {
    for (const { deviceId, hostname, message, code } of failed) {
      output.json({ type: 'refused', deviceId, hostname, message, code });
    }
    output.json({
      type: 'started',
      scriptId,
      name,
      executionIds,
      jobs: jobs.map(({ id, deviceId, hostname }) => ({ id, deviceId, hostname })),
    });
    return;
  }
  for (const { hostname, message } of failed) output.remark(`${hostname}: not started: ${message}`);
  const waiting = jobs.filter(({ waitsForDevice }) => waitsForDevice);
  for (const { hostname, expiresAt } of waiting.slice(0, NAMES_MAX)) {
    output.remark(`${hostname}: offline. It runs the script when it is back, until ${localTime(expiresAt)}.`);
  }
  const more = waiting.length - NAMES_MAX;
  if (more > 0) output.remark(`${devices(more)} more: offline likewise.`);
  output.remark(`${name} was started on ${devices(jobs.length)}. Ctrl+C leaves it alone.`);
}

async function followToTheEnd(
  profile: Profile,
  output: Output,
  jobs: readonly FollowedJob[],
  interrupted: AbortSignal,
): Promise<number> {
  const left = new AbortController();
  for (const signal of [interrupted, output.unread]) void aborted(signal).then(() => left.abort());
  const report = createJobReport(output, jobs);
  const ends = new Map<string, JobEnd>();
  const open = () => jobs.filter(({ id }) => !ends.has(id));
  try {
    await followJobs({ profile, jobs, report, left: left.signal }, ends);
  } catch (error) {
    // The script goes on, whatever has become of the sign-in or of the connection.
    sayHowToGoOn(output, open());
    throw error;
  }
  if (output.unread.aborted) return 0;
  if (open().length > 0) {
    sayHowToGoOn(output, open());
    return EXIT.interrupted;
  }
  const succeeded = [...ends.values()].filter(hasDoneItsWork).length;
  output.remark(`${succeeded} of ${devices(jobs.length)} succeeded.`);
  return succeeded === jobs.length ? 0 : EXIT.finding;
}

function sayHowToGoOn(output: Output, jobs: readonly FollowedJob[]): void {
  const ids = jobs.map(({ id }) => id).join(' ');
  output.remark(`The script goes on on ${devices(jobs.length)}.`);
  output.remark(`To look again: muster scripts follow ${ids}`);
  output.remark(`To cancel it:  muster jobs cancel ${ids}`);
}

function pairOf(text: string, option: string): [string, string] {
  const at = text.indexOf('=');
  if (at < 1) throw new RemoteFailure(EXIT.failed, `${option} ${text} must be a name, = and a value.`);
  return [text.slice(0, at), text.slice(at + 1)];
}

/** Values of secrets are asked for or come from a file: other users of the machine see arguments. */
async function secretsOf(io: CommandIo, given: readonly string[]): Promise<Record<string, string>> {
  const secrets: Record<string, string> = {};
  for (const text of given) {
    if (text.includes('=')) {
      const [name, file] = pairOf(text, '--secret');
      secrets[name] = await secretFrom(io, { file });
    } else secrets[text] = await askedSecret(io, text);
  }
  return secrets;
}

async function askedSecret(io: CommandIo, name: string): Promise<string> {
  try {
    return await ask(io, `Secret ${JSON.stringify(name)} (not shown): `, { isSecret: true });
  } catch (error) {
    if (!(error instanceof Unanswered)) throw error;
    if (error.reason === 'interrupted') throw new RemoteFailure(EXIT.interrupted, 'Nothing was started.');
    throw new RemoteFailure(
      EXIT.failed,
      `The secret ${name} cannot be asked for. Give a file that holds it: --secret ${name}=<file>.`,
    );
  }
}
