import type { DeviceStatus } from '../../protocol/index.ts';
import type { Query } from '../../platform/db/pool.ts';
import { MAINTENANCE_SQL, STATUS_SQL } from './fields.ts';
import type { Dependency, MatchableDevice, SqlValue } from './field.ts';
import { clock } from '../../clock.ts';
import type { Caller } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { TenantScope } from '../../platform/db/tenant-scope.ts';
import type { SqlSource } from './to-sql.ts';
import { postgresError } from '../../platform/db/database-errors.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';

/** Restricts a query on `visibleDevices` to matching devices. `now` is in milliseconds. */
export function whereMatching<Row extends object>(
  query: Query<Row>,
  conditions: SqlSource,
  {
    caller,
    now = clock.now(),
    prefix = 'matching',
  }: { caller: Caller | TenantScope; now?: number; prefix?: string },
): Query<Row> {
  const { text, values, named } = conditions.toSql({ now, tenant: inTenant(caller, 'd.org_id'), prefix });
  for (const one of named) {
    void query.withMaterialized(one.name, query.client.raw(one.text, bindings(one.values)));
  }
  return query.whereRaw(text, bindings(values));
}

/** Knex does not accept readonly arrays. */
const bindings = (values: readonly SqlValue[]) =>
  values.map((value) => (typeof value === 'object' ? [...value] : value));

const TIMEOUT_MS = 5000;

/** Typical filters have about ten conditions; up to this number no time limit is set, which saves two messages. */
const CHEAP_CONDITIONS = 100;

interface QueryCost {
  patterns: readonly string[];
  count: number;
}

/**
 * Runs a query with conditions. If they are many or contain regular expressions, the query gets a shorter time limit, and
 * the error of a time-out says how to simplify the conditions.
 */
export async function withPatternTimeout<T>(
  tx: Tx,
  { patterns, count }: QueryCost,
  query: () => PromiseLike<T>,
): Promise<T> {
  if (patterns.length === 0 && count <= CHEAP_CONDITIONS) return query();
  await tx.raw(`set local statement_timeout = '${TIMEOUT_MS}ms'`);
  try {
    const answer = await query();
    await tx.raw('set local statement_timeout to default');
    return answer;
  } catch (error) {
    throw patternError(error) ?? error;
  }
}

/** Throws if Postgres, which has limits of its own, rejects one of the regular expressions. */
export async function assertPatternsCompile(tx: Tx, conditions: QueryCost): Promise<void> {
  const patterns = [...new Set(conditions.patterns)];
  if (patterns.length === 0) return;
  await withPatternTimeout(tx, conditions, () =>
    tx.raw(`select count(*) from unnest(?::text[]) as given (pattern) where '' ~ given.pattern`, [patterns]),
  );
}

function patternError(error: unknown): AppError | undefined {
  switch (postgresError(error)?.code) {
    case '2201B':
      return new AppError('validation_failed', 'A regular expression is too large for the database.', {
        details: [{ path: 'conditions', message: 'contains a regular expression that is too large' }],
        cause: error,
      });
    case '57014':
      return new AppError(
        'unavailable',
        'Evaluating the conditions takes too long. Use fewer or simpler conditions, or avoid regular expressions.',
        { cause: error },
      );
    default:
      return undefined;
  }
}

/** Reads devices from the database for evaluation in memory. */

interface MatchableRow extends Omit<MatchableDevice, 'enrolledAt' | 'lastSeenAt' | 'metrics'> {
  status: DeviceStatus;
  enrolledAt: Date;
  lastSeenAt: Date | null;
  cpuPercent: number | null;
  ramPercent: number | null;
  diskPercent: number | null;
}

const GROUPS = `array(select m.group_id from device_group_members m
  where m.org_id = d.org_id and m.device_id = d.id order by m.group_id)`;

const AVERAGES = `coalesce((select a.averages from device_metric_averages a
  where a.org_id = d.org_id and a.device_id = d.id), '{}')`;

const SOFTWARE = `array(select distinct t.name from device_software s
  join software_titles t on t.org_id = s.org_id and t.id = s.title_id
  where s.org_id = d.org_id and s.device_id = d.id order by t.name)`;

/** @param reads  the needed parts; groups and software are read only if included */
export function selectMatchable(query: Query, reads: ReadonlySet<Dependency>): Query<MatchableRow> {
  const { client } = query;
  const list = (sql: string, type: string, isRead: boolean) => client.raw(isRead ? sql : `'{}'::${type}[]`);
  return query.select({
    id: 'd.id',
    orgId: 'd.org_id',
    siteId: 'd.site_id',
    hostname: 'd.hostname',
    displayName: 'd.display_name',
    agentVersion: 'd.agent_version',
    status: client.raw(STATUS_SQL),
    maintenance: client.raw(MAINTENANCE_SQL),
    enrolledAt: 'd.enrolled_at',
    lastSeenAt: 'p.last_seen_at',
    tags: 'd.tags',
    osType: 'd.os_type',
    osVersion: 'd.os_version',
    osBuild: 'd.os_build',
    architecture: 'd.architecture',
    hardware: 'd.hardware',
    network: 'd.network',
    cpuPercent: 'p.cpu_percent',
    ramPercent: 'p.ram_percent',
    diskPercent: 'p.disk_percent',
    averages: client.raw(AVERAGES),
    customFields: 'd.custom_fields',
    groupIds: list(GROUPS, 'uuid', reads.has('groupIds')),
    software: list(SOFTWARE, 'text', reads.has('software')),
  });
}

export function toMatchable({
  cpuPercent: cpu,
  ramPercent: ram,
  diskPercent: disk,
  ...row
}: MatchableRow): MatchableDevice {
  return {
    ...row,
    enrolledAt: row.enrolledAt.getTime(),
    lastSeenAt: row.lastSeenAt?.getTime() ?? null,
    metrics:
      cpu === null || ram === null || disk === null
        ? null
        : { cpuPercent: hundredths(cpu), ramPercent: hundredths(ram), diskPercent: hundredths(disk) },
  };
}

/** Rounds to hundredths: 12.3 in single precision reads as 12.300000190734863. */
const hundredths = (value: number) => Math.round(value * 100) / 100;
