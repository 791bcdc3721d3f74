import {
  type Coverage,
  coverageBindings,
  covered,
  LAST_ROUND,
  lookedUp,
  monitored,
  type Session,
} from './round-parts.queries.ts';

/**
 * Rules about services. A trigger of `device_services` matches them when a state changes; rounds do what it cannot: find
 * what was so before a rule was there, and notice that a state has lasted.
 */

/**
 * Matches rules with the services that are known: all rules in a whole round, otherwise those that were changed since the
 * last one. Devices that are being moved are passed over.
 */
export async function matchServices(tx: Session, isWhole: boolean, coverage: Coverage): Promise<void> {
  await tx.raw(
    `with rules as materialized (
      select r.id, r.condition, o.id as org_id, coalesce((r.condition ->> 'forMinutes')::integer, 0) as minutes,
        service_rule_name(r.condition) as name, lower(r.condition ->> 'name') as display_name
      from alert_rules r join (${monitored(coverage)}) o
        on o.partner_id = r.partner_id and (r.org_id is null or r.org_id = o.id)
      where r.condition_kind = 'service' and r.enabled ${isWhole ? '' : `and r.updated_at > ${LAST_ROUND}`}
    ), fitting as materialized (
      select distinct on (s.device_id, r.id, left(s.name, 100)) r.id as rule_id, s.org_id, s.device_id,
        left(s.name, 100) as label, s.since, r.minutes, service_facts(s.name, s.display_name, s.state) as facts
      from rules r cross join ${lookedUp(`
        select s.* from device_services s where s.org_id = r.org_id and lower(s.name) = r.name
        union all
        select s.* from device_services s
        where s.org_id = r.org_id and s.display_name <> '' and lower(s.display_name) = r.display_name`)} s
      where service_state_fits(r.condition, s.state)
      order by s.device_id, r.id, left(s.name, 100), s.name
    ), ended as (
      -- Columns of times round, and this round has to see the end as past.
      update alert_rule_matches m set ends_at = date_trunc('milliseconds', now()) from rules r
      where m.rule_id = r.id and m.org_id = r.org_id and m.ends_at is null
        and (m.device_id, m.rule_id, m.label) not in (select device_id, rule_id, label from fitting)
    ), missing as (
      select f.* from fitting f
      where not exists (select from alert_rule_matches m where m.device_id = f.device_id and m.rule_id = f.rule_id
        and m.label = f.label and m.ends_at is null)
    ), held as materialized (
      select d.id, d.org_id from devices d where d.id in (select device_id from missing)
      order by d.id for key share skip locked
    )
    insert into alert_rule_matches as m (rule_id, org_id, device_id, label, since, through, met_at, facts)
    select f.rule_id, f.org_id, f.device_id, f.label, f.since, f.since, case when f.minutes = 0 then now() end, f.facts
    from missing f join held h on h.id = f.device_id and h.org_id = f.org_id
    order by f.device_id, f.rule_id, f.label
    on conflict (device_id, rule_id, label) do update set since = excluded.since, through = excluded.through,
      met_at = excluded.met_at, ends_at = null, facts = excluded.facts where m.ends_at is not null`,
    coverageBindings(coverage),
  );
}

/** A device that has come back has this time to say that a service has changed meanwhile. */
const REPORT_TIME = `interval '2 minutes'`;

/**
 * Finds the matches whose state has lasted as long as the rule wants. While a device is away, nobody knows whether it
 * does, so only the time counts until it was heard last.
 */
export async function confirmServices(tx: Session, coverage: Coverage): Promise<void> {
  await tx.raw(
    `update alert_rule_matches m set met_at = now()
    where (m.device_id, m.rule_id, m.label) in (
      select w.device_id, w.rule_id, w.label
      from alert_rules r
      join alert_rule_matches w on w.rule_id = r.id and w.met_at is null and w.ends_at is null
      join device_presence p on p.device_id = w.device_id
      where r.condition_kind = 'service' and r.enabled ${covered('w.org_id', coverage)}
        and w.since <= now() - make_interval(mins => coalesce((r.condition ->> 'forMinutes')::integer, 0))
        and case p.state when 'connected' then p.since <= now() - ${REPORT_TIME}
          else p.last_seen_at >= w.since + make_interval(mins => coalesce((r.condition ->> 'forMinutes')::integer, 0)) end
      order by w.device_id, w.rule_id, w.label for update of w skip locked)`,
    coverageBindings(coverage),
  );
}
