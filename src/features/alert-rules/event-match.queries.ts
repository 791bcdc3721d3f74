import { type Coverage, coverageBindings, covered, type Session } from './round-parts.queries.ts';

/** Rules about events. A trigger of `event_logs` notes which events fit a rule, and rounds count them. */

/** The number of rules and devices whose events one round counts: what others have waits for the next. */
const CHECKS_OF_ORGANIZATION = 20;
const CHECKS_AT_ONCE = 200;
/** The number of events of one device that a check reads, and of those that fit: the newest. */
const EVENTS_READ = 5000;
const EVENTS_COUNTED = 2000;

/**
 * Counts the events of rules that new events fit. How long that takes is bounded, also if an organization has many rules
 * and its devices send floods of events, and each organization has its turn.
 */
export async function countEvents(tx: Session, coverage: Coverage): Promise<void> {
  await tx.raw(
    `with waiting as materialized (
      select c.device_id, c.rule_id, row_number() over (partition by c.org_id order by c.noted_at, c.device_id, c.rule_id) as turn
      from alert_rule_checks c where true ${covered('c.org_id', coverage)}
    ), taken as (
      delete from alert_rule_checks where (device_id, rule_id) in (
        select device_id, rule_id from waiting where turn <= ${CHECKS_OF_ORGANIZATION}
        order by turn, device_id, rule_id limit ${CHECKS_AT_ONCE})
      returning rule_id, org_id, device_id, earliest
    ), due as materialized (
      select t.*, r.condition, (r.condition ->> 'count')::bigint as wanted,
        make_interval(mins => (r.condition ->> 'withinMinutes')::integer) as within
      from taken t join alert_rules r on r.id = t.rule_id and r.enabled and r.condition_kind = 'event'
    ), put as (
      insert into alert_rule_matches as m (rule_id, org_id, device_id, since, through, met_at, ends_at, facts)
      select d.rule_id, d.org_id, d.device_id, hit.since, hit.through, now(), now() + d.within,
        jsonb_build_object('count', hit.count, 'source', hit.source, 'message', left(hit.message, 1000))
      from due d cross join lateral (
        select * from (
          select e."timestamp" as through, e.source, e.message, count(*) over recent as count,
            min(e."timestamp") over recent as since
          from (
            select l."timestamp", l.source, l.message from (
              select * from event_logs l
              where l.org_id = d.org_id and l.device_id = d.device_id and l."timestamp" >= d.earliest - d.within
              order by l."timestamp" desc limit ${EVENTS_READ}
            ) l
            where event_fits(d.condition, l.level, l.category, l.source, l.event_id, l.message, l.details)
            order by l."timestamp" desc limit ${EVENTS_COUNTED}
          ) e
          window recent as (order by e."timestamp" range between d.within preceding and current row)
        ) counted where counted.count >= d.wanted order by counted.through desc limit 1
      ) hit order by d.device_id, d.rule_id
      on conflict (device_id, rule_id, label) do update set since = excluded.since, through = excluded.through,
        met_at = case when m.ends_at > now() then m.met_at else excluded.met_at end,
        ends_at = excluded.ends_at, facts = excluded.facts
    )
    select from taken`,
    coverageBindings(coverage),
  );
}
