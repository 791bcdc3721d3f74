import { z } from 'zod';
import { knownPeople } from '../users/index.ts';
import { REPORT_ROWS_MAX, reportPart } from '../report-part.ts';
import { retentionOf } from './audit-retention.queries.ts';
import { DEFAULT_RETENTION_DAYS } from './audit.schema.ts';

const count = z.number().int();

/** The newest entries that are counted, so that an organization with a program that never rests holds nobody up. */
export const ENTRIES_MAX = 100_000;

/** SQL: actions that only read, try or sign in, and change nothing of the organization. */
const CHANGES_NOTHING = `(action like 'data.%' or action like 'user.login%' or action like 'user.mfa%'
  or action in ('user.logout', 'user.session.end', 'audit_logs.export') or action like '%.preview' or action like '%.test'
  or action like '%.download' or action like '%.export')`;

const PeopleReport = z
  .object({
    changes: count,
    people: z
      .array(
        z.object({
          name: z.string().describe('The present name, or the address of that time.'),
          isApiKey: z.boolean(),
          changes: count,
          actions: z
            .array(z.object({ action: z.string(), changes: count }))
            .describe('Those that the person did most often, at most three.'),
        }),
      )
      .describe('Those with the most changes.'),
    peopleCount: count.describe('How many people and API keys made changes.'),
    isCut: z.boolean().describe(`There are more entries than the newest ${ENTRIES_MAX}, which are counted.`),
  })
  .meta({ id: 'PeopleReport' });

/** People and API keys with what they have changed. */
export const peopleReport = reportPart({
  permission: 'audit:read',
  shape: PeopleReport,
  keptDays: async (ctx, orgId) => (await retentionOf(ctx, orgId))?.retentionDays ?? DEFAULT_RETENTION_DAYS,
  async read(ctx, { orgId, from, to }) {
    interface Row {
      changes: number;
      peopleCount: number;
      isCut: boolean;
      people: {
        id: string;
        email: string | null;
        isApiKey: boolean;
        changes: number;
        actions: { action: string; changes: number }[];
      }[];
    }
    const { rows } = await ctx.tx.raw<{ rows: [Row] }>(
      `with newest as materialized (
        select l.actor_type, l.actor_id, l.actor_email, l.action, l.result from audit_logs l
        where l.chain_id = :orgId and l."timestamp" >= :from and l."timestamp" < :to
        order by l."timestamp" desc, l.id desc limit ${ENTRIES_MAX + 1}
      ), done as (
        select actor_type, actor_id, action, max(actor_email) as email, count(*)::integer as n from newest
        where actor_type in ('user', 'api_key') and result = 'success' and not ${CHANGES_NOTHING}
        group by actor_type, actor_id, action
      ), people as (
        select actor_type, actor_id, max(email) as email, sum(n)::integer as n from done group by actor_type, actor_id)
      select coalesce((select sum(n) from people), 0)::integer as changes,
        (select count(*)::integer from people) as "peopleCount",
        (select count(*) > ${ENTRIES_MAX} from newest) as "isCut",
        (select coalesce(jsonb_agg(jsonb_build_object('id', p.actor_id, 'email', p.email,
            'isApiKey', p.actor_type = 'api_key', 'changes', p.n, 'actions', (
              select jsonb_agg(jsonb_build_object('action', a.action, 'changes', a.n)) from (
                select d.action, d.n from done d where d.actor_type = p.actor_type and d.actor_id = p.actor_id
                order by d.n desc, d.action limit 3) a)) order by p.n desc, p.actor_id), '[]')
          from (select * from people order by n desc, actor_id limit ${REPORT_ROWS_MAX}) p) as people`,
      { orgId, from, to },
    );
    const [{ people, ...totals }] = rows;
    const known = await knownPeople(
      ctx,
      people.map(({ id }) => id),
    );
    return {
      ...totals,
      people: people.map(({ id, email, ...person }) => ({
        name: known.get(id)?.name ?? email ?? 'No longer known',
        ...person,
      })),
    };
  },
});
