import { z } from 'zod';
import type { CommandIo } from '../io.ts';
import { type Api, apiOf, type Query } from './server/api.ts';
import { COLUMNS, type ColumnName, Device } from './device-columns.ts';
import { type ConditionOptions, conditionsOf } from './conditions.ts';
import { EXIT, RemoteFailure } from './server/failure.ts';
import { connectToHub } from './server/hub-connection.ts';
import { filterIdOf, matchingDevices } from './matching-devices.ts';
import { createOutput } from './terminal/output.ts';
import { profileNamed, type Profile } from './server/profiles.ts';
import { table } from './terminal/table.ts';

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

async function* pagesOf(api: Api, options: DevicesOptions): AsyncGenerator<Device[]> {
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
  // A device that moves to a later page while the pages are read would come twice.
  const seen = new Set<string>();
  const Page = z.object({ data: z.array(Device), pagination: z.object({ total: z.number() }) });
  for (let page = 1; ; page++) {
    const { data, pagination } = await api.get('/devices', Page, { ...query, page: String(page) });
    yield data.filter(({ id }) => !seen.has(id)).slice(0, limit - seen.size);
    for (const { id } of data) seen.add(id);
    if (data.length < PAGE || seen.size >= limit || page * PAGE >= pagination.total) return;
  }
}

/** What REST takes and a subscription does not. */
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
  const hub = await connectToHub(profile);
  try {
    const found = await matchingDevices(hub, { orgId: options.org, siteId: options.site, conditions });
    yield found.slice(0, options.limit);
  } finally {
    hub.close();
  }
}
