import { z } from 'zod';
import { type CommandIo, textOf } from '../io.ts';
import { filterIdOf } from './names.ts';
import { type Api, apiOf, type Query } from './api.ts';
import { EXIT, RemoteFailure, profileNamed, type Profile } from './profiles.ts';
import { COLUMNS, type ColumnName, Device, createOutput, table } from './output.ts';
import type { HubConnection } from './hub-connection.ts';
import {
  DevicesDelta,
  DevicesEnded,
  DevicesSnapshot,
  type DevicesSubscribe,
  type DeviceSummary,
} from '../../protocol/index.ts';

const Ok = z.object({ ok: z.literal(true) });

/** All devices that match now, sorted by host name: the subscription is ended once it is complete. */
export async function matchingDevices(
  hub: HubConnection,
  wanted: DevicesSubscribe,
): Promise<DeviceSummary[]> {
  const devices = new Map<string, DeviceSummary>();
  // Deltas may arrive before the acknowledgement is processed.
  const early: z.infer<typeof DevicesDelta>[] = [];
  let take = (delta: z.infer<typeof DevicesDelta>) => void early.push(delta);
  let subscriptionId = '';
  const complete = new Promise<void>((resolve, reject) => {
    hub.on('devices:delta', DevicesDelta, (delta) => take(delta));
    hub.on('devices:ended', DevicesEnded, (end) => {
      if (end.subscriptionId === subscriptionId) reject(new RemoteFailure(EXIT.failed, end.message));
    });
    hub.ask('devices:subscribe', wanted, DevicesSnapshot).then((snapshot) => {
      ({ subscriptionId } = snapshot);
      for (const device of snapshot.devices) devices.set(device.id, device);
      take = (delta) => {
        if (delta.subscriptionId !== subscriptionId) return;
        for (const device of delta.entered) devices.set(device.id, device);
        for (const id of delta.left) devices.delete(id);
        if (delta.complete === true) resolve();
      };
      for (const delta of early) take(delta);
      if (snapshot.complete) resolve();
    }, reject);
  });
  await Promise.race([complete, hub.lost]);
  await hub.ask('devices:unsubscribe', { subscriptionId }, Ok);
  return [...devices.values()].sort((one, other) => (one.hostname < other.hostname ? -1 : 1));
}

/** `muster devices`: the devices that the key may see, as a table or one JSON object a line. */

export interface DevicesOptions extends ConditionOptions {
  filter?: string;
  org?: string;
  site?: string;
  group?: string;
  status?: string;
  os?: string;
  search?: string;
  tags?: string;
  sort?: string;
  order?: string;
  limit?: number;
  columns: ColumnName[];
  profile?: string;
  json?: boolean;
}

export async function listDevices(io: CommandIo, options: DevicesOptions): Promise<number> {
  const output = createOutput(io, options);
  const profile = await profileNamed(io, options.profile);
  const conditions = await conditionsOf(io, options);
  const pages =
    conditions === undefined ? pagesOf(apiOf(profile), options) : matching(profile, conditions, options);
  const rows: string[][] = [];
  for await (const page of pages) {
    if (output.unread.aborted) return 0;
    for (const device of page) {
      if (output.isJson) output.json(device);
      else rows.push(options.columns.map((column) => COLUMNS[column](device)));
    }
  }
  if (output.isJson) return 0;
  const titles = options.columns.map((column) => column.replace(/[A-Z]/g, ' $&').toUpperCase());
  if (rows.length > 0) for (const line of table(titles, rows, output.width)) output.line(line);
  output.remark(rows.length === 1 ? '1 device' : `${rows.length} devices`);
  return 0;
}

const PAGE = 100;

type Narrowing = Omit<DevicesOptions, 'columns' | keyof ConditionOptions>;

/** The devices of the list in pages, each once. */
export async function* pagesOf(api: Api, options: Narrowing): AsyncGenerator<Device[]> {
  const { filter, limit = Infinity } = options;
  const query: Query = {
    orgId: options.org,
    siteId: options.site,
    groupId: options.group,
    status: options.status,
    osType: options.os,
    search: options.search,
    tags: options.tags,
    sort: options.sort,
    order: options.order,
    filterId: filter === undefined ? undefined : await filterIdOf(api, filter),
    limit: String(Math.min(PAGE, limit)),
  };
  // A device that moves to a later page between two requests would appear twice.
  const seen = new Set<string>();
  const Page = z.object({ data: z.array(Device), pagination: z.object({ total: z.number() }) });
  for (let page = 1; ; page++) {
    const { data, pagination } = await api.get('/devices', Page, { ...query, page: String(page) });
    yield data.filter(({ id }) => !seen.has(id)).slice(0, limit - seen.size);
    for (const { id } of data) seen.add(id);
    if (data.length < PAGE || seen.size >= limit || page * PAGE >= pagination.total) return;
  }
}

/** Options that REST supports and a subscription does not. */
const NOT_WITH_CONDITIONS = ['filter', 'group', 'status', 'os', 'search', 'tags', 'sort', 'order'] as const;

async function* matching(
  profile: Profile,
  conditions: unknown,
  options: DevicesOptions,
): AsyncGenerator<Device[]> {
  const refused = NOT_WITH_CONDITIONS.find((name) => options[name] !== undefined);
  if (refused !== undefined) {
    throw new RemoteFailure(
      EXIT.failed,
      `--${refused} cannot be used with --where and --conditions. Write it as a condition.`,
    );
  }
  // Most lists need no connection, which takes longer to load than they take.
  const { connectToHub } = await import('./hub-connection.ts');
  const hub = await connectToHub(profile);
  try {
    const found = await matchingDevices(hub, { orgId: options.org, siteId: options.site, conditions });
    yield found.slice(0, options.limit);
  } finally {
    hub.close();
  }
}

/** Conditions as the user writes them. The server checks them: it knows the fields and the operators. */

export interface ConditionOptions {
  /** Such as `osType equals windows`; all of them must match. */
  where?: string[];
  /** JSON in the form that filters have, or `@` and the name of a file. */
  conditions?: string;
}

/** Returns `undefined` if the user gave none. */
export async function conditionsOf(
  io: CommandIo,
  { where = [], conditions }: ConditionOptions,
): Promise<unknown> {
  const simple = where.map(condition);
  if (conditions === undefined) {
    return simple.length === 0 ? undefined : { operator: 'AND', conditions: simple };
  }
  const given = parsed(conditions.startsWith('@') ? await contentOf(io, conditions.slice(1)) : conditions);
  return simple.length === 0 ? given : { operator: 'AND', conditions: [given, ...simple] };
}

/** The value is parsed as JSON if possible, such as 80 or ["windows","macos"], and is text otherwise. */
function condition(text: string): { field: string; operator: string; value?: unknown } {
  const { field, operator, value } =
    /^\s*(?<field>\S+)\s+(?<operator>\S+)(?:\s+(?<value>.*\S))?\s*$/s.exec(text)?.groups ?? {};
  if (field === undefined || operator === undefined) {
    throw new RemoteFailure(
      EXIT.failed,
      `--where "${text}" must be a field, an operator and a value, such as "osType equals windows".`,
    );
  }
  return { field, operator, ...(value === undefined ? {} : { value: jsonOr(value) }) };
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new RemoteFailure(
      EXIT.failed,
      `--conditions is not valid JSON: ${error instanceof Error ? error.message : ''}`,
    );
  }
}

async function contentOf(io: CommandIo, file: string): Promise<string> {
  try {
    return await textOf(io, file);
  } catch (error) {
    throw new RemoteFailure(EXIT.failed, `--conditions: ${error instanceof Error ? error.message : ''}`);
  }
}
