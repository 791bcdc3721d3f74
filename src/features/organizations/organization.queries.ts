import { type Tx, runPrepared } from '../../platform/db/transaction.ts';
import type { Caller, Context } from '../../platform/context.ts';
import { nameOrder, type Statement } from '../../platform/db/statement.ts';
import { Timestamp } from '../../platform/http/fields.ts';
import { RawJson } from '../../platform/http/route.ts';
import { haystackOf, searchOf } from '../search/index.ts';
import { Organization, type OrganizationQuery } from './organization.schema.ts';
import { snakeCaseMappers } from 'objection';
import { z } from 'zod';

/** Lists of organizations: the dashboard's first question, so one round trip, and JSON made by Postgres. */

/**
 * The condition of an organization that the caller may see; row level security is the net under it. Not `inTenant`,
 * which would list all organizations of a partner just to look them up among themselves.
 */
export function reach({ scope, orgAccess }: Pick<Caller, 'scope' | 'orgAccess'>): string {
  if (scope === 'system') return 'true';
  return orgAccess === 'all'
    ? 'organizations.partner_id = (select app_partner_wide())'
    : 'organizations.id = any((select app_listed_org_ids())::uuid[])';
}

interface Listed {
  data: string;
  total: number;
}

export async function listAllOrganizations(ctx: Context): Promise<RawJson> {
  const { data } = await list(ctx, { limit: null, offset: 0 });
  return new RawJson(`{"data":${data}}`);
}

export async function listOrganizations(ctx: Context, query: OrganizationQuery): Promise<RawJson> {
  const { page, limit, partnerId } = query;
  const { data, total } = await list(ctx, { limit, offset: (page - 1) * limit, partnerId });
  return new RawJson(`{"data":${data},"pagination":${JSON.stringify({ page, limit, total })}}`);
}

async function list(
  { caller, tx }: Context,
  { limit, offset, partnerId }: { limit: number | null; offset: number; partnerId?: string | undefined },
): Promise<Listed> {
  const ofPartner = partnerId === undefined ? [] : [partnerId];
  const [listed] = await runPrepared<Listed>(tx, statement(caller, ofPartner.length > 0), [
    limit,
    offset,
    ...ofPartner,
  ]);
  if (listed === undefined) throw new Error('a list of organizations without a row');
  return listed;
}

/**
 * By name; in the partner's own order if it has chosen one: what that leaves out comes last, as registered. Of the
 * two halves of the union, Postgres only runs the one whose condition holds.
 */
function statement(caller: Caller, byPartner: boolean): Statement {
  const visible = `${reach(caller)} and organizations.deleted_at is null${byPartner ? ' and organizations.partner_id = $3' : ''}`;
  const form = caller.scope === 'system' ? 'system' : caller.orgAccess;
  return {
    name: `organizations_${form}${byPartner ? '_of_partner' : ''}`,
    text: `
      with chosen as materialized (
        select array(
          select jsonb_array_elements_text(settings -> 'organizationOrder')::uuid
          from partners where id = (select app_partner_id())
        ) as ids
      )
      select
        (select count(*)::int from organizations where ${visible}) as total,
        (select coalesce(json_agg(${rowAsJson(Organization, 'listed', Timestamp)}), '[]')::text from (
          (select organizations.* from organizations
            where ${visible} and (select cardinality(ids) from chosen) = 0
            order by ${nameOrder('organizations.name')}, organizations.id limit $1 offset $2)
          union all
          (select organizations.* from organizations
            left join unnest((select ids from chosen)) with ordinality as place (id, position)
              on place.id = organizations.id
            where ${visible} and (select cardinality(ids) from chosen) > 0
            order by place.position nulls last, organizations.created_at, organizations.id limit $1 offset $2)
        ) as listed) as data`,
  };
}

/** Locks an organization, so that a limit on what it has holds: transactions that add to it wait for each other. */
export async function lockOrganization(tx: Tx, orgId: string): Promise<void> {
  await tx.raw('select from organizations where id = ? for no key update', [orgId]);
}

const columnNames = snakeCaseMappers();
const ISO_8601 = `YYYY-MM-DD"T"HH24:MI:SS.MS"Z"`;

/**
 * SQL for a row as JSON: the fields of the schema and no others, in its order, each from the column of its name. Times
 * are recognized by `timestamp`, the schema that all of them share.
 */
function rowAsJson(schema: z.ZodObject, row: string, timestamp: z.ZodType): string {
  const isTime = (field: unknown): boolean =>
    field === timestamp || (field instanceof z.ZodNullable && isTime(field.unwrap()));
  const fields = Object.entries(schema.shape).map(([name, field]) => {
    const [columnName] = Object.keys(columnNames.format({ [name]: null }));
    const column = `${row}.${columnName}`;
    return `'${name}', ${isTime(field) ? `to_char(${column} at time zone 'UTC', '${ISO_8601}')` : column}`;
  });
  return `json_build_object(${fields.join(', ')})`;
}

export const organizationSearch = searchOf({ type: 'organizations' }, (caller) => ({
  table: `(select * from organizations where ${reach(caller)} and deleted_at is null)`,
  where: 'true',
  haystack: haystackOf('s.name', 'null'),
  title: 's.name',
  description: 'null::text',
  order: 'lower(s.name)',
}));
