import {
  EventLogsEnd,
  type EventLogsQuery,
  EventLogsRows,
  LOG_PAGE_MAX,
  type LogEntry,
  type LogLevel,
  QUERY_MAX_DEVICES,
  type QueryOutcome,
  QueryStarted,
} from '../../protocol/index.ts';
import type { CommandIo } from '../io.ts';
import { apiOf } from './api.ts';
import { EXIT, RemoteFailure, profileNamed, type Profile } from './profiles.ts';
import { type ConditionOptions, conditionsOf, matchingDevices } from './devices.ts';
import { deviceNamed, filterIdOf } from './names.ts';
import { connectToHub, type HubConnection, aborted, interruptible } from './hub-connection.ts';
import { localSeconds } from './local-time.ts';
import { createOutput, type Output, visible, fitted } from './output.ts';

/** `muster query`: reads the event logs of devices live, as the dashboard does. Nothing of it is stored. */

export interface QueryOptions extends ConditionOptions {
  device?: string[];
  filter?: string;
  org?: string;
  log: string;
  level?: LogLevel[];
  source?: string;
  eventId?: number;
  text?: string;
  since?: string;
  until?: string;
  limit: number;
  follow?: boolean;
  profile?: string;
  json?: boolean;
}

interface Target {
  id: string;
  hostname: string;
}

export async function query(io: CommandIo, options: QueryOptions): Promise<number> {
  const output = createOutput(io, options);
  const profile = await profileNamed(io, options.profile);
  const conditions = await conditionsOf(io, options);
  const ways = [options.device, options.filter, conditions].filter((way) => way !== undefined);
  if (ways.length !== 1) {
    throw new RemoteFailure(
      EXIT.failed,
      'Give either --device, --filter, or conditions with --where and --conditions.',
    );
  }
  return interruptible(io, async (interrupted) => {
    const hub = await connectToHub(profile);
    try {
      const targets = await targetsOf(profile, hub, options, conditions);
      if (options.follow === true && targets.length !== 1) {
        throw new RemoteFailure(EXIT.failed, `--follow reads one device, and ${targets.length} match.`);
      }
      return await Promise.race([
        run(hub, targets, options, output, interrupted),
        aborted(output.unread).then(() => 0),
      ]);
    } finally {
      hub.close();
    }
  });
}

async function targetsOf(
  profile: Profile,
  hub: HubConnection,
  { device, filter, org }: QueryOptions,
  conditions: unknown,
): Promise<Target[]> {
  const api = apiOf(profile);
  if (device !== undefined) {
    const found: Target[] = [];
    for (const named of device) found.push(await deviceNamed(api, named));
    return [...new Map(found.map((target) => [target.id, target])).values()];
  }
  const which = filter === undefined ? { conditions } : { filterId: await filterIdOf(api, filter) };
  return matchingDevices(hub, { orgId: org, ...which });
}

async function run(
  hub: HubConnection,
  targets: readonly Target[],
  options: QueryOptions,
  output: Output,
  interrupted: AbortSignal,
): Promise<number> {
  const names = new Map(targets.map(({ id, hostname }) => [id, hostname]));
  const width = Math.max(0, ...targets.map(({ hostname }) => Math.min(visible(hostname).length, NAME_MAX)));
  const shown = new Map<string, number>();
  const room = options.follow === true ? Number.POSITIVE_INFINITY : options.limit;
  hub.on('eventlogs:rows', EventLogsRows, ({ deviceId, rows }) => {
    const before = shown.get(deviceId) ?? 0;
    const kept = rows.slice(0, Math.max(0, room - before));
    shown.set(deviceId, before + kept.length);
    for (const entry of kept) {
      const hostname = names.get(deviceId) ?? deviceId;
      if (output.isJson) output.json({ type: 'entry', deviceId, hostname, entry });
      else output.line(fitted(entryLine(entry, hostname, width), output.width));
    }
  });
  const outcomes: QueryOutcome[] = [];
  // The server queries this many devices at once; further ones are queried in turn.
  for (let at = 0; at < targets.length && !interrupted.aborted; at += QUERY_MAX_DEVICES) {
    const batch = targets.slice(at, at + QUERY_MAX_DEVICES);
    const ended = await outcomesOf(hub, batch, options, interrupted);
    outcomes.push(...ended.map((outcome) => withinLimit(outcome, room)));
  }
  report(outcomes, names, output, options.limit);
  if (interrupted.aborted) return EXIT.interrupted;
  return outcomes.every(({ outcome }) => outcome === 'answered' || outcome === 'no_match') ? 0 : EXIT.finding;
}

/** Requests one entry more than is shown, to detect that there are more. */
const askedLimit = (limit: number) => Math.min(limit + 1, LOG_PAGE_MAX);

/** The note names the limit, not the number of hidden entries. Even if a device returns no more, it may have more. */
function withinLimit(outcome: QueryOutcome, limit: number): QueryOutcome {
  const isCut = outcome.rows > limit || (limit === LOG_PAGE_MAX && outcome.rows === limit);
  return isCut ? { ...outcome, rows: Math.min(outcome.rows, limit), truncated: true } : outcome;
}

async function outcomesOf(
  hub: HubConnection,
  targets: readonly Target[],
  options: QueryOptions,
  interrupted: AbortSignal,
): Promise<QueryOutcome[]> {
  // The end may arrive together with the acknowledgement, before the id of the query is known.
  const ends = new Map<string, QueryOutcome[]>();
  let onEnd = () => {};
  const changed = () => new Promise<void>((resolve) => (onEnd = resolve));
  hub.on('eventlogs:end', EventLogsEnd, ({ queryId, outcomes }) => {
    ends.set(queryId, outcomes);
    onEnd();
  });
  const { log, level, source, eventId, text, since, until } = options;
  const read: Pick<
    EventLogsQuery,
    'name' | 'level' | 'source' | 'eventId' | 'text' | 'startTime' | 'endTime'
  > = {
    name: log,
    ...(level === undefined ? {} : { level }),
    ...(source === undefined ? {} : { source }),
    ...(eventId === undefined ? {} : { eventId }),
    ...(text === undefined ? {} : { text }),
    ...(since === undefined ? {} : { startTime: since }),
    ...(until === undefined ? {} : { endTime: until }),
  };
  const ids = targets.map(({ id }) => id);
  const { queryId } =
    options.follow === true
      ? await hub.ask('eventlogs:tail', { ...read, deviceId: ids[0] ?? '' }, QueryStarted)
      : await hub.ask(
          'eventlogs:query',
          { ...read, deviceIds: ids, limit: askedLimit(options.limit) },
          QueryStarted,
        );
  void aborted(interrupted).then(() => hub.cancelQuery(queryId));
  for (;;) {
    const ended = ends.get(queryId);
    if (ended !== undefined) return ended;
    await Promise.race([changed(), hub.lost]);
  }
}

const NAME_MAX = 30;

function entryLine(entry: LogEntry, hostname: string, width: number): string {
  const { timeCreated, level, source, eventId, message } = entry;
  const parts = [
    localSeconds(timeCreated),
    level.padEnd(11),
    hostname.padEnd(width),
    `${source}[${eventId}]`,
    message,
  ];
  return visible(parts.join('  '));
}

const WORDS: Readonly<Record<QueryOutcome['outcome'], string>> = {
  answered: 'answered',
  no_match: 'without a match',
  offline: 'offline',
  timed_out: 'timed out',
  error: 'failed',
  cancelled: 'cancelled',
};

function report(
  outcomes: readonly QueryOutcome[],
  names: ReadonlyMap<string, string>,
  output: Output,
  limit: number,
): void {
  const counts = new Map<QueryOutcome['outcome'], number>();
  let rows = 0;
  for (const { deviceId, ...outcome } of outcomes) {
    const hostname = names.get(deviceId) ?? deviceId;
    if (output.isJson) output.json({ type: 'outcome', deviceId, hostname, ...outcome });
    else if (outcome.outcome !== 'answered' && outcome.outcome !== 'no_match') {
      output.remark(
        `${hostname}: ${WORDS[outcome.outcome]}${outcome.message === undefined ? '' : `: ${outcome.message}`}`,
      );
    } else if (outcome.truncated === true) {
      output.remark(visible(`${hostname}: ${whyCut(outcome, limit)}`));
    }
    counts.set(outcome.outcome, (counts.get(outcome.outcome) ?? 0) + 1);
    rows += outcome.rows;
  }
  const parts = [...counts].map(([outcome, count]) => `${count} ${WORDS[outcome]}`);
  const devices = outcomes.length === 1 ? '1 device' : `${outcomes.length} devices`;
  output.remark(
    `${devices}${parts.length === 0 ? '' : `: ${parts.join(', ')}`}. ${rows} ${rows === 1 ? 'entry' : 'entries'}.`,
  );
}

/** The incompleteness of a result, and how to get the rest. */
function whyCut(
  { outcome, rows, note, lookedBackTo }: Pick<QueryOutcome, 'outcome' | 'rows' | 'note' | 'lookedBackTo'>,
  limit: number,
) {
  if (outcome === 'answered' && rows === limit) {
    const more = limit < LOG_PAGE_MAX ? ` --limit ${LOG_PAGE_MAX} shows more.` : '';
    return `only the newest ${limit} entries are shown, and there are more.${more} So do --since and --until.`;
  }
  const why = note === undefined ? '' : ` ${note}`;
  const further =
    lookedBackTo === undefined
      ? 'Narrow the time with --since and --until.'
      : `It has looked back to ${lookedBackTo}: go on with --until ${lookedBackTo}.`;
  return `the device stopped before it had read everything.${why} ${further}`;
}
