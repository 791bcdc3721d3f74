import { z } from 'zod';
import { arrayLiteral, type Statement } from '../../platform/db/statement.ts';
import {
  AlertSeverity,
  endCausesSql,
  KIND_OF_ONE_RULE,
  notCoolingDown,
  SEVERITY_RANK,
  STANDS,
} from '../alerts/index.ts';
import { RuleCondition } from './alert-rule.schema.ts';
import {
  type Coverage,
  coverageBindings,
  covered,
  inServiceDevice,
  LAST_ROUND,
  lookedUp,
  monitored,
  NO_TIME,
  type Session,
} from './round-parts.queries.ts';
import { METRIC_ALERT_KINDS } from './rule-metrics.ts';

/** On which devices the conditions of rules are met: `alert_rule_matches`, and the alerts that follow from it. */

export interface DeviceMatch {
  /** Of the device in the list that was asked for, from 1: cheaper to send and to find than its id. */
  place: number;
  ruleId: string;
  label: string;
  /** In ms, which is cheaper to read than a date. */
  since: number;
  through: number;
  isMet: boolean;
}

/** SQL: whether a match that ends, or has ended, begins again already. Its facts then say since when. */
const BEGINS_AGAIN = `jsonb_exists(m.facts, 'again')`;
const AGAIN = (field: 'since' | 'through') => `(m.facts #>> '{again,${field}}')::float8`;

/** SQL: a time of a match in ms; of one that ends, that of what begins again. */
const followedSince = (field: 'since' | 'through') =>
  `case when m.ends_at is null then date_part('epoch', m.${field}) * 1000 else ${AGAIN(field)} end as ${field}`;

/** The matches of devices that have not ended, and those that begin again. */
export const READ_MATCHES: Statement = {
  name: 'alert-rule-matches-read',
  // Joined, because a list of ids as a parameter makes Postgres read the whole table.
  text: `select m.* from unnest($1::uuid[]) with ordinality as asked (id, place)
    cross join lateral (
      select asked.place::int as place, m.rule_id as "ruleId", m.label, ${followedSince('since')},
        ${followedSince('through')}, m.met_at is not null and m.ends_at is null as "isMet"
      from alert_rule_matches m
      where m.device_id = asked.id and (m.ends_at is null or ${BEGINS_AGAIN}) offset 0) m`,
};

/** The organizations of devices. */
export const READ_ORGANIZATIONS: Statement = {
  name: 'alert-rule-organizations-read',
  text: `select id as "deviceId", org_id as "orgId" from devices where id = any($1::uuid[])`,
};

/** Longer than two rounds are apart. */
const NEXT_ROUND = `interval '75 seconds'`;

/** What the figures of a device have changed. */
export interface MatchChange {
  ruleId: string;
  deviceId: string;
  label: string;
  since: number;
  through: number;
  value: number;
  /** The figure that ended it. */
  cleared: number | null;
  /** `passed`: the condition was met and is over again, all in figures that came together. */
  state: 'begun' | 'met' | 'passed' | 'over';
  /** What has passed, or is over, begins again in the figures that came with its end. */
  again?: Pick<DeviceMatch, 'since' | 'through'> | undefined;
}

/** SQL: facts that say that a match begins again. */
const againFacts = (since: string, through: string) =>
  `jsonb_build_object('again', jsonb_build_object('since', ${since}, 'through', ${through}))`;
const AGAIN_AS_SENT = `case when s.again_since is null then '{}'
        else ${againFacts('s.again_since', 's.again_through')} end`;
/** SQL: what begins is put over a match that a round has not ended yet. */
const IS_TO_END = 'excluded.met_at is null and m.met_at is not null';
/** SQL: when a match that is over ends: after a round has seen it. */
const ENDS = `case when m.met_at > (select through from alert_rounds) then now() + ${NEXT_ROUND} else now() end`;
const inMs = (time: string) => `extract(epoch from ${time})::float8 * 1000`;

/**
 * Writes changes of matches. One that is over is deleted; if the condition was met, it ends instead, so that the next
 * round says why it resolves the alert. One that no round has seen yet, because it has passed in one message or in two that
 * came between rounds, ends after the next round has raised an alert for it. If the condition begins to be met again before
 * a round has seen the end, the row keeps both: what ends in its columns, and what begins in its facts. Devices that are
 * being moved are passed over: they leave their rules.
 */
export const WRITE_MATCHES: Statement = {
  name: 'alert-rule-matches-write',
  text: `
    with sent as materialized (
      select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::float8[], $7::float8[],
        $8::text[], $9::float8[], $10::float8[])
        as s (rule_id, device_id, label, since, through, value, cleared, state, again_since, again_through)
    ), held as materialized (
      select id, org_id from devices where id = any($2::uuid[]) order by id for key share skip locked
    ), put as (
      insert into alert_rule_matches as m (rule_id, org_id, device_id, label, since, through, met_at, ends_at, facts)
      select s.rule_id, h.org_id, s.device_id, s.label, s.since, s.through,
        case when s.state in ('met', 'passed') then now() end, case s.state when 'passed' then now() + ${NEXT_ROUND} end,
        jsonb_build_object('value', s.value, 'cleared', s.cleared) || ${AGAIN_AS_SENT}
      from sent s join held h on h.id = s.device_id join alert_rules r on r.id = s.rule_id
      where s.state <> 'over' order by s.device_id, s.rule_id, s.label
      on conflict (device_id, rule_id, label) do update set
        since = case when ${IS_TO_END} then m.since else excluded.since end,
        through = case when ${IS_TO_END} then m.through else excluded.through end,
        met_at = case when ${IS_TO_END} then m.met_at else excluded.met_at end,
        ends_at = case when ${IS_TO_END} then coalesce(m.ends_at, ${ENDS}) else excluded.ends_at end,
        facts = case when ${IS_TO_END}
          then m.facts || ${againFacts(inMs('excluded.since'), inMs('excluded.through'))} else excluded.facts end
    ), ended as (
      update alert_rule_matches m set ends_at = ${ENDS},
        facts = m.facts - 'again' || ${AGAIN_AS_SENT}
          || jsonb_build_object('cleared', coalesce(s.cleared, (m.facts ->> 'cleared')::float8))
      from sent s where s.state = 'over' and m.device_id = s.device_id and m.rule_id = s.rule_id and m.label = s.label
        and m.met_at is not null
    )
    delete from alert_rule_matches m using sent s
    where s.state = 'over' and m.device_id = s.device_id and m.rule_id = s.rule_id and m.label = s.label
      and m.met_at is null`,
};

/** The parameters of `WRITE_MATCHES`. */
export const matchValues = (changes: readonly MatchChange[]): string[] => [
  arrayLiteral(changes.map(({ ruleId }) => ruleId)),
  arrayLiteral(changes.map(({ deviceId }) => deviceId)),
  arrayLiteral(changes.map(({ label }) => label)),
  arrayLiteral(changes.map(({ since }) => new Date(since).toISOString())),
  arrayLiteral(changes.map(({ through }) => new Date(through).toISOString())),
  arrayLiteral(changes.map(({ value }) => value)),
  arrayLiteral(changes.map(({ cleared }) => cleared)),
  arrayLiteral(changes.map(({ state }) => state)),
  arrayLiteral(changes.map(({ again }) => again?.since ?? null)),
  arrayLiteral(changes.map(({ again }) => again?.through ?? null)),
];

/** SQL: whether the condition of the match is met now. */
const IS_MET = 'm.met_at is not null and (m.ends_at is null or m.ends_at > now())';

const Facts = z.object({
  value: z.number().optional(),
  count: z.number().optional(),
  message: z.string().optional(),
  source: z.string().optional(),
  name: z.string().optional(),
  state: z.string().optional(),
  version: z
    .string()
    .nullish()
    .transform((version) => version ?? undefined),
});

const DueAlert = z.object({
  orgId: z.string(),
  deviceId: z.string(),
  kind: z.string(),
  ruleId: z.string(),
  rule: z.string(),
  severity: AlertSeverity,
  condition: RuleCondition,
  autoResolve: z.boolean(),
  device: z.string(),
  found: z.array(z.object({ label: z.string(), since: z.coerce.date(), facts: Facts })).min(1),
});
export type DueAlert = z.infer<typeof DueAlert>;

/**
 * The alerts that have to be raised, at most `atMost`, each of the worst rule whose condition is met. Alerts that stand are
 * among them if they are worse now, or about a further volume.
 * @param isWhole  whether all matches are examined, and not only those since the last round
 */
export async function dueAlerts(
  tx: Session,
  { isWhole, atMost }: { isWhole: boolean; atMost: number },
  coverage: Coverage,
): Promise<DueAlert[]> {
  const { rows } = await tx.raw<{ rows: unknown[] }>(
    `with monitored as materialized (${monitored(coverage)}),
    touched as materialized (
      select distinct m.device_id, r.alert_kind from alert_rule_matches m join alert_rules r on r.id = m.rule_id
      where ${IS_MET} ${isWhole ? '' : `and m.met_at > ${LAST_ROUND}`} ${covered('m.org_id', coverage)}
    ), best as (
      select distinct on (p.device_id, p.kind) p.org_id, p.device_id, p.kind, p.rule_id, p.name as rule, p.severity,
        p.condition, p.auto_resolve, p.cooldown_minutes, d.name as device
      from touched t
      join lateral (
        select m.org_id, m.device_id, r.alert_kind as kind, r.id as rule_id, r.name, r.severity, r.condition, r.target,
          r.auto_resolve, r.cooldown_minutes, r.created_at, r.org_id as rule_org_id, r.partner_id
        from alert_rule_matches m join alert_rules r on r.id = m.rule_id and r.alert_kind = t.alert_kind and r.enabled
        where m.device_id = t.device_id and ${IS_MET}
      ) p on true
      join monitored o on o.id = p.org_id and o.partner_id = p.partner_id and coalesce(p.rule_org_id = o.id, true)
      cross join ${inServiceDevice(NO_TIME)} d
      where d.org_id = p.org_id and target_covers(p.target, p.org_id, d.site_id, p.device_id)
      order by p.device_id, p.kind, ${SEVERITY_RANK('p')}, p.created_at, p.rule_id
    )
    select b.org_id as "orgId", b.device_id as "deviceId", b.kind, b.rule_id as "ruleId", b.rule, b.severity, b.condition,
      b.auto_resolve as "autoResolve", b.device, found.list as found
    from best b
    cross join lateral (
      select jsonb_agg(jsonb_build_object('label', m.label, 'since', m.since, 'facts', m.facts) order by m.label) as list,
        jsonb_agg(m.label) as labels
      from alert_rule_matches m where m.device_id = b.device_id and m.rule_id = b.rule_id and ${IS_MET}
    ) found
    left join ${lookedUp(`select a.id, a.severity, a.cause_lasts, coalesce(a.details -> 'labels', '[]') as labels
      from alerts a where a.subject_id = b.device_id and a.kind = b.kind and ${STANDS('a')}`)} a on true
    where (a.id is null or not a.cause_lasts or ${SEVERITY_RANK('b')} < ${SEVERITY_RANK('a')}
        or not a.labels @> found.labels)
      and ${notCoolingDown('b', 'b')}
    limit ${atMost}`,
    coverageBindings(coverage),
  );
  // A rule that this release does not know raises nothing, and stops no other.
  return rows.flatMap((row) => DueAlert.safeParse(row).data ?? []);
}

const OverAlert = z.object({
  id: z.string(),
  isOutOfService: z.boolean(),
  /** The match that ended last; null if the rule does not watch for it any more. */
  last: z
    .object({
      condition: z.unknown(),
      label: z.string(),
      value: z.number().nullable(),
      name: z.string().nullable(),
      state: z.string().nullable(),
    })
    .nullable(),
});
export type OverAlert = z.infer<typeof OverAlert>;

/** Alerts that were raised by a release without rules end after this time, unless a rule has taken them over. */
const TAKEN_OVER_WITHIN = `interval '1 day'`;

const OF_MATCHES = `a.cause_lasts and (a.kind = any(:metricKinds::text[]) or a.kind ~ '${KIND_OF_ONE_RULE}')`;
/** SQL: the alerts whose matches have ended, or whose rule was changed, since the last round. */
const JUST_OVER = `(
      select a.* from alert_rule_matches m join alert_rules r on r.id = m.rule_id
      cross join ${lookedUp(`select a.* from alerts a
        where a.subject_id = m.device_id and a.kind = r.alert_kind and a.cause_lasts`)} a
      where m.ends_at <= now()
      union
      select a.* from alert_rules r
      cross join ${lookedUp(`select a.* from alerts a where a.rule_id = r.id and ${OF_MATCHES}`)} a
      where r.updated_at > ${LAST_ROUND}) a`;
/** SQL: all that rules have raised by matches. */
const ALL_OF_MATCHES = `(
      select a.* from alerts a
      where ${OF_MATCHES} and (a.rule_id is not null or a.last_at < now() - ${TAKEN_OVER_WITHIN})) a`;

/**
 * The alerts whose condition is not met any more by any rule, at most `atMost`.
 * @param isWhole  whether all are examined, also those of devices that have moved, and not only those that have just ended
 */
export async function overAlerts(
  tx: Session,
  { isWhole, atMost }: { isWhole: boolean; atMost: number },
  coverage: Coverage,
): Promise<OverAlert[]> {
  const { rows } = await tx.raw<{ rows: unknown[] }>(
    `select a.id, coalesce(d.condition = 'decommissioned', true) as "isOutOfService", (
        select jsonb_build_object('condition', r.condition, 'label', m.label, 'value', m.facts -> 'cleared',
          'name', m.facts -> 'name', 'state', m.facts -> 'state')
        from alert_rule_matches m join alert_rules r on r.id = m.rule_id
        where m.device_id = a.device_id and m.rule_id = a.rule_id and m.ends_at <= now()
        order by m.ends_at desc limit 1) as last
    from ${isWhole ? ALL_OF_MATCHES : JUST_OVER} left join devices d on d.id = a.device_id
    where true ${covered('a.org_id', coverage)}
      and (d.id is null or d.condition = 'decommissioned' or not exists (
        select from alert_rule_matches m join alert_rules r on r.id = m.rule_id
        where m.org_id = a.org_id and m.device_id = a.device_id and ${IS_MET} and r.alert_kind = a.kind and r.enabled
          and target_covers(r.target, a.org_id, d.site_id, d.id)))
    limit ${atMost}`,
    { ...coverageBindings(coverage), metricKinds: [...METRIC_ALERT_KINDS] },
  );
  return rows.map((row) => OverAlert.parse(row));
}

/** Ends the causes of alerts, each with its reason. */
export async function endCauses(tx: Session, ended: readonly { id: string; why: string }[]): Promise<void> {
  await tx.raw(
    endCausesSql(
      'left(w.why, 300)',
      'from jsonb_to_recordset(?::jsonb) as w (id uuid, why text) where a.id = w.id',
    ),
    [JSON.stringify(ended)],
  );
}

/**
 * Matches that have ended are needed no more once a round has resolved their alerts, but for what begins again. Those that
 * are being written follow with the next round: the round and what writes would otherwise wait for each other.
 */
export async function forgetEnded(tx: Session, coverage: Coverage): Promise<void> {
  const isOf = (place: string) => `(m.device_id, m.rule_id, m.label)
      in (select device_id, rule_id, label from ended where ${place})`;
  await tx.raw(
    `with ended as materialized (
      select m.device_id, m.rule_id, m.label, ${BEGINS_AGAIN} as again from alert_rule_matches m
      where m.ends_at <= now() ${covered('m.org_id', coverage)} for update skip locked
    ), begun as (
      update alert_rule_matches m set since = to_timestamp(${AGAIN('since')} / 1000),
        through = to_timestamp(${AGAIN('through')} / 1000), met_at = null, ends_at = null, facts = '{}'
      where ${isOf('again')}
    )
    delete from alert_rule_matches m where ${isOf('not again')}`,
    coverageBindings(coverage),
  );
}
