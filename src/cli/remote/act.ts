import { ask, type CommandIo, Unanswered } from '../io.ts';
import { type Api, apiOf, Refused } from './api.ts';
import { type ConditionOptions, conditionsOf } from './devices.ts';
import { interruptible } from './hub-connection.ts';
import { createOutput, type Output, table, visible } from './output.ts';
import { EXIT, profileNamed, RemoteFailure } from './profiles.ts';
import { type Target, targetsOf } from './targets.ts';

/** What all commands that change devices have in common: which devices, a dry run, a question, and what became of each. */

export interface ActOptions extends ConditionOptions {
  yes?: boolean;
  dryRun?: boolean;
  profile?: string;
  json?: boolean;
}

export interface Outcome {
  ok: boolean;
  /** For people: what was done, or why not. */
  message: string;
  code?: string;
  /** The command that the device was given. */
  commandId?: string;
}

export interface Act {
  /** `3 devices will be …` */
  does: string;
  /** Asks also where there is one device only. */
  isGrave?: (targets: readonly Target[]) => boolean;
  /** How many devices one request takes. */
  atOnce: number;
  /** Changes some devices. Each has an outcome. */
  change: (targets: readonly Target[], isStopped: () => boolean) => Promise<ReadonlyMap<string, Outcome>>;
}

/** @param actOn  reads what the act needs before anything is asked, such as the site that devices move to */
export async function act(
  io: CommandIo,
  names: readonly string[],
  options: ActOptions,
  actOn: (api: Api) => Promise<Act>,
): Promise<number> {
  const output = createOutput(io, options);
  const profile = await profileNamed(io, options.profile);
  const conditions = await conditionsOf(io, options);
  const planned = await actOn(apiOf(profile));
  const targets = await targetsOf(profile, names, conditions);
  if (options.dryRun === true) return dryRun(output, targets, planned.does);
  const isAsked = targets.length > 1 || planned.isGrave?.(targets) === true;
  if (isAsked && options.yes !== true) await confirm(io, hostnamesOf(targets), planned.does);
  return interruptible(io, async (interrupted) => {
    const outcomes = await outcomesOf(targets, planned, () => interrupted.aborted || output.unread.aborted);
    report(output, targets, outcomes);
    if (interrupted.aborted) return EXIT.interrupted;
    return targets.every(({ id }) => outcomes.get(id)?.ok === true) ? 0 : EXIT.finding;
  });
}

/** Shows the devices, and changes nothing. */
export function dryRun(output: Output, targets: readonly Target[], does: string): number {
  if (output.isJson) {
    for (const { id, ...target } of targets) output.json({ deviceId: id, ...target, dryRun: true });
    return 0;
  }
  const rows = targets.map(({ hostname, status, id }) => [hostname, status, id]);
  for (const line of table(['HOSTNAME', 'STATUS', 'ID'], rows, output.width)) output.line(line);
  output.remark(`${devices(targets.length)} would be ${does}. Nothing was changed.`);
  return 0;
}

/** How many devices a remark or a question names. */
export const NAMES_MAX = 20;

/**
 * Throws unless the user agrees. Without a terminal nobody is there to ask.
 * @param hostnames  of all devices that would be changed
 */
export async function confirm(io: CommandIo, hostnames: readonly string[], does: string): Promise<void> {
  const more = hostnames.length - NAMES_MAX;
  const list = `${hostnames.slice(0, NAMES_MAX).join(', ')}${more > 0 ? `, and ${more} more` : ''}`;
  const question = `${devices(hostnames.length)} will be ${does}`;
  try {
    const answer = await ask(io, visible(`${question}: ${list}. Go on? [y/N] `));
    if (/^\s*y(es)?\s*$/i.test(answer)) return;
  } catch (error) {
    if (!(error instanceof Unanswered)) throw error;
    if (error.reason === 'interrupted') throw new RemoteFailure(EXIT.interrupted, 'Nothing was changed.');
    if (error.reason === 'no terminal') {
      throw new RemoteFailure(
        EXIT.failed,
        `${question}, and there is no terminal to ask at. Give --yes if that is right, or look at it with --dry-run.`,
      );
    }
  }
  throw new RemoteFailure(EXIT.failed, 'Nothing was changed.');
}

export const hostnamesOf = (targets: readonly Target[]): string[] => targets.map(({ hostname }) => hostname);

export const devices = (count: number): string => (count === 1 ? '1 device' : `${count} devices`);

async function outcomesOf(
  targets: readonly Target[],
  { atOnce, change }: Act,
  isStopped: () => boolean,
): Promise<ReadonlyMap<string, Outcome>> {
  const outcomes = new Map<string, Outcome>();
  for (let at = 0; at < targets.length && !isStopped(); at += atOnce) {
    const batch = targets.slice(at, at + atOnce);
    try {
      for (const [id, outcome] of await change(batch, isStopped)) outcomes.set(id, outcome);
    } catch (error) {
      if (!(error instanceof RemoteFailure)) throw error;
      const isLast = !isAboutDevices(error) && (atOnce > 1 || endsAll(error));
      // Where nothing was done before, the failure says all there is to say.
      if (isLast && outcomes.size === 0) throw error;
      for (const { id } of batch) outcomes.set(id, failureOf(error, id));
      if (isLast) break;
    }
  }
  return outcomes;
}

/** Whether the next request would fail as well. */
export const endsAll = ({ exit }: RemoteFailure): boolean =>
  exit === EXIT.notSignedIn || exit === EXIT.forbidden || exit === EXIT.unreachable;

/** Whether the server has taken the request, and refused the devices. */
export const isAboutDevices = (error: RemoteFailure): error is Refused =>
  error instanceof Refused && error.refusals.length > 0;

/** What became of a device for which a request has failed. */
export function failureOf(error: RemoteFailure, deviceId: string): Outcome {
  const refusal = isAboutDevices(error) ? error.refusals.find((one) => one.deviceId === deviceId) : undefined;
  const code = refusal?.code ?? (error instanceof Refused ? error.code : undefined);
  return { ok: false, message: refusal?.message ?? error.message, ...(code === undefined ? {} : { code }) };
}

const NOT_REACHED: Outcome = { ok: false, code: 'NOT_ATTEMPTED', message: 'Not attempted.' };

function report(output: Output, targets: readonly Target[], outcomes: ReadonlyMap<string, Outcome>): void {
  const all = targets.map(({ id, hostname }) => ({
    deviceId: id,
    hostname,
    ...(outcomes.get(id) ?? NOT_REACHED),
  }));
  if (output.isJson) for (const one of all) output.json(one);
  else {
    const rows = all.map(({ hostname, message }) => [hostname, message]);
    for (const line of table(['HOSTNAME', 'RESULT'], rows, output.width)) output.line(line);
  }
  const done = all.filter(({ ok }) => ok).length;
  output.remark(done === all.length ? devices(done) : `${done} of ${devices(all.length)}`);
}
