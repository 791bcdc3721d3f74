import { isIP } from 'node:net';
import type { Caller } from '../../platform/context.ts';
import { containing, inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { PRESENCE_JOIN } from '../conditions/index.ts';
import { BETWEEN_TEXTS, BETWEEN_WORDS, type SearchSource } from '../search/index.ts';
import { storedForms } from './device-search.ts';

// Devices are searched in two texts: their names, and what else they are known by (migrations/0028_device_search.sql).
// Each text is read from one index, and what a search costs is bounded (docs/decisions/search.md).

/** So many texts of a kind that match are looked at: a search that nearly all devices match ends early. */
const MATCHES_MAX = 20_000;
/** So many of them are ranked. If there are more, those that begin with the search text come first. */
const RANKED_MAX = 2000;
/** So many of the best of a kind are put in order by how recently the devices were active. */
const CANDIDATES_MAX = 200;
/** A single character matches the addresses of all devices. */
const FACT_LENGTH_MIN = 2;
/** `position` is faster than `like` for texts of more characters, and slower for others. */
const SHORT = 3;

export const deviceSearch: SearchSource = {
  type: 'devices',
  permission: 'devices:read',
  find({ caller, q }) {
    const names = namesOf(caller, q);
    const facts = q.length < FACT_LENGTH_MIN ? undefined : factsOf(caller, storedForms(q));
    const texts = [matching('named', names), ranked('named', names)];
    const arms = ['select * from named_ranked'];
    if (facts !== undefined) {
      texts.push(matching('known', facts, NAMES_FILL_THE_PAGE), ranked('known', facts));
      arms.push('select * from known_ranked');
      if (isIP(q) !== 0) arms.push(seenFrom(caller));
    }
    return {
      sql: `
        with ${texts.join(', ')},
        candidates as materialized (
          select distinct on (c.id) c.id, c.org_id, c.rank, c.by_name
          from (${arms.join(' union all ')}) c (id, org_id, by_name, rank)
          order by c.id, c.rank, c.by_name desc
        ),
        best as materialized (
          select d.id, d.org_id, c.rank, c.by_name, p.last_ip,
            row_number() over (order by c.rank, c.by_name desc, ${LAST_ACTIVE} desc nulls last, d.search_text, d.id) as place
          from candidates c join devices d on d.org_id = c.org_id and d.id = c.id ${PRESENCE_JOIN}
          where d.condition <> 'decommissioned'
          order by place limit :limit
        )
        select d.id, coalesce(d.display_name, d.hostname) as title,
          coalesce(m.matched, case when d.display_name is null then d.os_version else d.hostname end) as description, b.rank
        from best b join devices d on d.org_id = b.org_id and d.id = b.id
        left join lateral (${facts === undefined ? 'select null::text as matched' : matchedFact(facts)}) m on not b.by_name
        order by b.place`,
      values: facts?.values ?? {},
    };
  },
};

/** Connected devices first, the others by the day on which they were last heard: devices that report do not change places. */
const LAST_ACTIVE = `(case when p.state = 'connected' or p.reports_until > now() then 'infinity'::timestamptz
  else date_trunc('day', p.last_seen_at) end)`;

/** Texts that are searched, in SQL. The conditions are those of ranks (`rankOf`). */
interface Texts {
  /** Selects `id`, `org_id` and `text`, with a condition at its end that others can be added to. */
  rows: string;
  isName: boolean;
  contains: (text: string) => string;
  begins: (text: string) => string;
  equals: (text: string) => string;
  hasWord: (text: string) => string;
  /** Orders those that match equally well. */
  order: string;
}

const namesOf = (caller: Caller, q: string): Texts => ({
  rows: `select s.id, s.org_id, s.search_text as text from devices s
    where ${inTenant(caller, 's.org_id')} and s.condition <> 'decommissioned'`,
  isName: true,
  contains: (text) => (q.length > SHORT ? `position(:q in ${text}) > 0` : `${text} like :anywhere`),
  begins: (text) => `(${text} like :beginning or position(:second in ${text}) > 0)`,
  equals: (text) => `${text} like any(:equals::text[])`,
  hasWord: (text) => `${text} like any(:words::text[])`,
  order: 's.text',
});

/** Each fact stands between two separators. */
function factsOf(
  caller: Caller,
  forms: readonly string[],
): Texts & { values: Record<string, string | string[]> } {
  const values: Record<string, string | string[]> = {
    factWords: forms.flatMap((form) => BETWEEN_WORDS.map((sign) => containing(sign + form))),
  };
  const having = (name: string, wanted: (form: string) => string) => {
    const tests = forms.map((form, place) => {
      const part = wanted(form);
      const binding = `${name}${place}`;
      values[binding] = part.length > SHORT ? part : containing(part);
      return (text: string) =>
        part.length > SHORT ? `position(:${binding} in ${text}) > 0` : `${text} like :${binding}`;
    });
    return (text: string) => `(${tests.map((test) => test(text)).join(' or ')})`;
  };
  return {
    rows: `select s.device_id as id, s.org_id, s.facts as text from device_search_facts s
      where ${inTenant(caller, 's.org_id')}`,
    isName: false,
    contains: having('factPart', (form) => form),
    begins: having('factStart', (form) => BETWEEN_TEXTS + form),
    equals: having('fact', (form) => BETWEEN_TEXTS + form + BETWEEN_TEXTS),
    hasWord: (text) => `${text} like any(:factWords::text[])`,
    // The newest devices: their ids begin with the time of their enrollment.
    order: 's.id desc',
    values,
  };
}

const rankSql = ({ equals, begins, hasWord }: Texts, text: string) =>
  `case when ${equals(text)} then 0 when ${begins(text)} then 1 when ${hasWord(text)} then 2 else 3 end`;

/**
 * A CTE of rows whose text matches. If there are too many to rank, those that equal the search text or begin with it come
 * first.
 * @param enough  SQL: whether only those that equal it are wanted
 */
function matching(name: string, { rows, contains, begins, equals }: Texts, enough?: string): string {
  const [isWanted, equal, beginning] = [contains, equals, begins].map((condition) => condition('s.text'));
  return `
    ${name} as materialized (
      select s.* from (
        select s.* from (${rows}) s
        where ${enough === undefined ? isWanted : `case when ${enough} then ${equal} else ${isWanted} end`}
        limit ${MATCHES_MAX}
      ) s
      order by case when not ${beginning} then 2 when ${equal} then 0 else 1 end limit ${RANKED_MAX}
    )`;
}

/** Then, of the facts only those count that equal the search text. */
const NAMES_FILL_THE_PAGE = '((select count(*) from named_ranked s where s.rank < 2) >= :limit)';

/** A CTE of the best of the rows of another one. */
const ranked = (name: string, texts: Texts) => `
  ${name}_ranked as materialized (
    select s.id, s.org_id, ${texts.isName} as by_name, ${rankSql(texts, 's.text')} as rank
    from ${name} s order by rank, ${texts.order}, s.id limit ${CANDIDATES_MAX}
  )`;

/**
 * By the address that the server sees, which may be that of a router, unless it is an address of a device itself. Only
 * whole addresses, because it is not in the texts.
 */
const seenFrom = (caller: Caller) => `(
  select p.device_id, p.org_id, false, 0 from device_presence p
  where ${inTenant(caller, 'p.org_id')} and p.last_ip = :q
    and not exists (select from known_ranked s where s.rank = 0)
  limit ${CANDIDATES_MAX})`;

const INTERFACES =
  'select i.interfaces from device_inventory i where i.org_id = d.org_id and i.device_id = d.id';

/** SQL: the fact of a device that matches best, as people read it. The texts are those of `device_search_text`. */
const matchedFact = (facts: Texts) => `
  select v.kind || ' ' || v.value as matched
  from (
    select 1, 'Last user', d.last_user, d.last_user
    union all select 2, 'Serial number', d.hardware ->> 'serialNumber', d.hardware ->> 'serialNumber'
    union all select 3, 'MAC address', a, a || chr(31) || replace(a, ':', '')
      from device_mac_addresses(d.network, (${INTERFACES})) a
    union all select 4, 'IP address', a, a from device_ip_addresses(d.network, (${INTERFACES})) a
    union all select 5, 'IP address', b.last_ip, b.last_ip
    union all select 6, 'Tag', t, ' ' || t from unnest(d.tags) t
  ) v (place, kind, value, fact)
  cross join lateral (select lower(chr(31) || v.fact || chr(31)) as text) h
  where ${facts.contains('h.text')}
  order by ${rankSql(facts, 'h.text')}, v.place, v.value limit 1`;

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
