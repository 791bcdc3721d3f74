import { isIP } from 'node:net';
import type { Caller } from '../../platform/context.ts';
import { containing, inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { PRESENCE_JOIN } from '../conditions/index.ts';
import { BETWEEN_WORDS, type SearchSource } from '../search/index.ts';
import { storedForms } from './device-search.ts';

// Devices are searched in two texts: their names, and what else they are known by (migrations/0028_device_search.sql).
// Each text is read from one index. What a search costs is bounded (docs/decisions/search.md).

/** So many matching texts of a kind are ranked. If there are more, those that begin with the search text come first. */
const RANKED_MAX = 5000;
/** So many of the best are put in order by how recently they were active. */
const CANDIDATES_MAX = 200;
/** A single character matches the addresses of all devices. */
const FACT_LENGTH_MIN = 2;

export const deviceSearch: SearchSource = {
  type: 'devices',
  permission: 'devices:read',
  find({ caller, q }) {
    const forms = q.length < FACT_LENGTH_MIN ? [] : storedForms(q);
    const arms = [
      NAME_CANDIDATES,
      ...(forms.length === 0 ? [] : [FACT_CANDIDATES]),
      ...(isIP(q) === 0 ? [] : [`(${seenFrom(caller)})`]),
    ];
    return {
      sql: `
        with ${named(caller)},
        ${forms.length === 0 ? '' : `${known(caller)},`}
        candidates as materialized (
          select distinct on (c.id) c.id, c.org_id, c.rank, c.by_name
          from (${arms.join(' union all ')}) c
          order by c.id, c.rank, c.by_name desc
        ),
        best as materialized (
          select d.id, d.org_id, c.rank, c.by_name, p.last_ip,
            row_number() over (order by c.rank, ${LAST_ACTIVE} desc nulls last, c.by_name desc, d.search_text, d.id) as place
          from candidates c join devices d on d.org_id = c.org_id and d.id = c.id ${PRESENCE_JOIN}
          where d.condition <> 'decommissioned'
          order by place limit :limit
        )
        select d.id, coalesce(d.display_name, d.hostname) as title,
          coalesce(m.matched, case when d.display_name is null then d.os_version else d.hostname end) as description, b.rank
        from best b join devices d on d.org_id = b.org_id and d.id = b.id
        ${forms.length === 0 ? 'cross join (select null::text as matched) m' : `left join lateral (${MATCHED}) m on not b.by_name`}
        order by b.place`,
      values: {
        factsWithin: forms.map(containing),
        factsBeginning: forms.map((form) => containing(SEPARATOR + form)),
        factsEqual: forms.map((form) => containing(SEPARATOR + form + SEPARATOR)),
        factsWords: forms.flatMap((form) => BETWEEN_WORDS.map((sign) => containing(sign + form))),
      },
    };
  },
};

/** Connected devices first, the others by the day on which they were last heard: devices that report do not change places. */
const LAST_ACTIVE = `(case when p.state = 'connected' or p.reports_until > now() then 'infinity'::timestamptz
  else date_trunc('day', p.last_seen_at) end)`;

/** Separates facts, and names. */
const SEPARATOR = '\u001f';

/**
 * CTEs that end in `name`: the rows whose text matches. If there are too many to rank, then some of them, with all that
 * begin with the search text; and if those are too many, with all that are equal to it. As a rule, one scan is enough.
 */
const matching = (
  name: string,
  { rows, within, beginning, equal }: { rows: string; within: string; beginning: string; equal: string },
) => {
  const isFull = (earlier: string) => `(select count(*) from ${earlier}) >= ${RANKED_MAX}`;
  return `
    ${name}_within as materialized (${rows} and ${within} limit ${RANKED_MAX}),
    ${name}_beginning as materialized (${rows} and ${isFull(`${name}_within`)} and ${beginning} limit ${RANKED_MAX}),
    ${name}_equal as materialized (${rows} and ${isFull(`${name}_beginning`)} and ${equal} limit ${RANKED_MAX}),
    ${name} as (select * from ${name}_within union select * from ${name}_beginning union select * from ${name}_equal)`;
};

const NAME_BEGINS = `(s.search_text like lower(:beginning) or position(:betweenTexts || lower(:q) in s.search_text) > 0)`;
const NAME_EQUALS = `(starts_with(s.search_text, lower(:q) || :betweenTexts)
  or right(s.search_text, length(lower(:q)) + 1) = :betweenTexts || lower(:q))`;

const named = (caller: Caller) =>
  matching('named', {
    rows: `select s.id, s.org_id, s.search_text from devices s
      where ${inTenant(caller, 's.org_id')} and s.condition <> 'decommissioned'`,
    within: 's.search_text like lower(:anywhere)',
    beginning: NAME_BEGINS,
    equal: NAME_EQUALS,
  });

const NAME_CANDIDATES = `(
  select s.id, s.org_id, true as by_name, case when ${NAME_EQUALS} then 0 when ${NAME_BEGINS} then 1
    when s.search_text like any(array(select lower(word) from unnest(:words::text[]) word)) then 2 else 3 end as rank
  from named s order by rank, s.search_text, s.id limit ${CANDIDATES_MAX})`;

const factsLike = (text: string, binding: string) =>
  `${text} like any(array(select lower(form) from unnest(:${binding}::text[]) form))`;

const known = (caller: Caller) =>
  matching('known', {
    rows: `select s.device_id, s.org_id, s.facts from device_search_facts s where ${inTenant(caller, 's.org_id')}`,
    within: factsLike('s.facts', 'factsWithin'),
    beginning: factsLike('s.facts', 'factsBeginning'),
    equal: factsLike('s.facts', 'factsEqual'),
  });

const factRank = (text: string) => `case when ${factsLike(text, 'factsEqual')} then 0
  when ${factsLike(text, 'factsBeginning')} then 1 when ${factsLike(text, 'factsWords')} then 2 else 3 end`;

/** The newest devices, if there are too many: their ids begin with the time of their enrollment. */
const FACT_CANDIDATES = `(
  select s.device_id, s.org_id, false, ${factRank('s.facts')} as rank
  from known s order by rank, s.device_id desc limit ${CANDIDATES_MAX})`;

/** By the address that the server sees, which may be that of a router. Whole addresses only: it is not in the texts. */
const seenFrom = (caller: Caller) => `select p.device_id, p.org_id, false, 0 from device_presence p
  where ${inTenant(caller, 'p.org_id')} and p.last_ip = lower(:q) limit ${CANDIDATES_MAX}`;

const INTERFACES = 'select i.interfaces from device_inventory i where i.org_id = d.org_id and i.device_id = d.id';

/** SQL: the fact of a device that matches best, as people read it. The texts are those of `device_search_text`. */
const MATCHED = `
  select v.kind || ' ' || v.value as matched
  from (
    select 1, 'Last user', d.last_user, d.last_user
    union all select 2, 'Serial number', d.hardware ->> 'serialNumber', d.hardware ->> 'serialNumber'
    union all select 3, 'MAC address', a, a || chr(31) || replace(a, ':', '')
      from device_mac_addresses(d.network, (${INTERFACES})) a
    union all select 4, 'IP address', a, a from device_ip_addresses(d.network, (${INTERFACES})) a
    union all select 5, 'IP address', b.last_ip, b.last_ip
    union all select 6, 'Tag', t, ' ' || t from unnest(d.tags) t
  ) v (place, kind, value, text)
  cross join lateral (select lower(chr(31) || v.text || chr(31)) as haystack) h
  where ${factsLike('h.haystack', 'factsWithin')}
  order by ${factRank('h.haystack')}, v.place, v.value limit 1`;

export async function selectOrganizationIds(tx: Tx): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>('select id from organizations order by id');
  return rows.map(({ id }) => id);
}

/**
 * Stores the facts of devices of an organization that have none, and returns the number of these devices. Locked, so that
 * a device does not move to another organization meanwhile. A change at the same time stores them itself.
 */
export async function addMissingSearchFacts(tx: Tx, orgId: string, limit: number): Promise<number> {
  const { rows } = await tx.raw<{ rows: { devices: number }[] }>(
    `with missing as materialized (
      select d.id from devices d where d.org_id = :orgId and d.condition <> 'decommissioned'
        and not exists (select from device_search_facts f where f.org_id = :orgId and f.device_id = d.id)
      limit :limit
    ), held as materialized (
      select d.org_id, d.id, d.last_user, d.hardware, d.network, d.tags
      from devices d where d.id in (select id from missing) and d.org_id = :orgId and d.condition <> 'decommissioned'
      order by d.id for key share
    ), added as (
      insert into device_search_facts (org_id, device_id, facts)
      select h.org_id, h.id, device_search_text(h.last_user, h.hardware, h.network, h.tags, i.interfaces)
      from held h left join device_inventory i on i.org_id = h.org_id and i.device_id = h.id
      on conflict (org_id, device_id) do nothing
    )
    select count(*)::int as devices from missing`,
    { orgId, limit },
  );
  return rows[0]?.devices ?? 0;
}
