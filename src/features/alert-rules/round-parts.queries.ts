import type { Tx } from '../../platform/db/transaction.ts';

/** What the statements of a round have in common. */

/** A transaction, or a savepoint within one. */
export type Session = Pick<Tx, 'raw'>;

/** The organizations that a statement covers: one, or all except some. */
export interface Coverage {
  only?: string;
  except?: readonly string[];
}

/** SQL that limits `column` to the covered organizations, with the fields of the coverage as named bindings. */
export const covered = (column: string, { only, except = [] }: Coverage): string => {
  if (only !== undefined) return `and ${column} = cast(:only as uuid)`;
  return except.length === 0 ? '' : `and ${column} <> all(cast(:except as uuid[]))`;
};

/** The fields of the coverage, for `covered`. */
export const coverageBindings = ({ only, except = [] }: Coverage) => ({
  ...(only === undefined ? {} : { only }),
  except: [...except],
});

/** Rounds overlap to allow for clock differences between nodes and for presence that is written late. */
const OVERLAP = `interval '2 minutes'`;
export const LAST_ROUND = `(select through - ${OVERLAP} from alert_rounds)`;

/** SQL: the organizations for which alerts are raised. Suspended ones are excluded. */
export const monitored = (coverage: Coverage): string => `
  select o.id, o.partner_id from organizations o join partners on partners.id = o.partner_id
  where o.deleted_at is null and o.status in ('active', 'trial')
    and partners.deleted_at is null and partners.status = 'active' ${covered('o.id', coverage)}`;

/**
 * Forces a lookup by index for each outer row. The planner cannot know how few devices a time range contains and would
 * otherwise read whole tables to join them; `offset 0` keeps the lateral subquery from being merged into a join.
 */
export const lookedUp = (query: string) => `lateral (${query} offset 0)`;

/** No time after the end of a maintenance window. */
export const NO_TIME = `interval '0'`;

/**
 * SQL: the device of a row `p`, if it is in service. No alerts are raised for devices in maintenance or quarantine.
 * @param after  for how long a maintenance window counts after its end
 */
export const inServiceDevice = (after: string) =>
  lookedUp(`select d.org_id, d.site_id, coalesce(nullif(d.display_name, ''), d.hostname) as name
  from devices d where d.id = p.device_id and d.condition in ('normal', 'updating')
    and not exists (select from maintenance_members m where m.org_id = d.org_id and m.device_id = d.id
      and m.suppress_alerts and m.starts_at <= now() and m.ends_at > now() - ${after})`);
