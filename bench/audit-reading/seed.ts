import { asOwner } from '../../test/support/test-postgres.ts';

/**
 * Creates an installation with the given number of entries over two years, in order of time, so the chains are
 * interleaved.
 */

export interface Seeded {
  /** Organizations of the large partner: the first has 30 % of all entries, the others share 40 %. */
  orgIds: string[];
  partnerId: string;
  /** Two organizations with very few entries. */
  small: { partnerId: string; orgIds: string[] };
}

const OTHERS = 200;

export async function seedEntries(ownerUrl: string, seeded: Seeded, entries: number): Promise<void> {
  const sql = (text: string, values: unknown[] = []) =>
    asOwner<Record<string, string>>(ownerUrl, text, values);
  const { orgIds, partnerId, small } = seeded;
  await sql(
    `with p as (
      insert into partners (id, name, slug, status)
      select gen_random_uuid(), 'Other ' || n, 'other-' || n, 'active' from generate_series(1, ${OTHERS / 4}) n returning id
    )
    insert into organizations (id, partner_id, name, slug)
    select gen_random_uuid(), p.id, 'Org ' || n, 'org-' || n from p, generate_series(1, 4) n`,
  );
  // Chain numbers: 0 is the large organization, 1 to 99 are the other organizations of its partner, 100 is that
  // partner,
  // 101 and 102 are the small organizations, then all others.
  await sql('create table bench_chains (no int primary key, org_id uuid, partner_id uuid)');
  await sql(
    `insert into bench_chains select ord - 1, id, $2 from unnest($1::uuid[]) with ordinality as u (id, ord)`,
    [orgIds, partnerId],
  );
  await sql(`insert into bench_chains values (100, null, $1), (101, $3, $2), (102, $4, $2)`, [
    partnerId,
    small.partnerId,
    ...small.orgIds,
  ]);
  await sql(
    `insert into bench_chains select 102 + row_number() over (order by o.id), o.id, o.partner_id
    from organizations o join partners p on p.id = o.partner_id where p.slug like 'other-%'`,
  );
  // Twenty people per chain, and ten who work in all chains of the large partner; two of them acted very rarely.
  await sql(
    `insert into users (id, email, name)
    select md5('person ' || c.no || ' ' || n)::uuid, 'p' || n || '.c' || c.no || '@example.com', 'Person ' || n || ' Of' || c.no
    from bench_chains c, generate_series(0, 19) n`,
  );
  await sql(
    `insert into organization_users (org_id, user_id, role_id)
    select c.org_id, md5('person ' || c.no || ' ' || n)::uuid, (select id from roles where scope = 'organization' limit 1)
    from bench_chains c, generate_series(0, 19) n where c.org_id is not null`,
  );

  const indexes = await sql(
    `select indexname as name, indexdef as definition from pg_indexes where tablename = 'audit_logs'
      and indexname not in (select conname from pg_constraint)`,
  );
  for (const { name } of indexes) await sql(`drop index "${name}"`);
  await sql('alter table audit_logs drop constraint audit_logs_no_fork, drop constraint audit_logs_place');
  await sql(
    `set work_mem = '1GB'; select setseed(0.5);
    insert into audit_logs (id, org_id, partner_id, "timestamp", actor_type, actor_id, actor_email, action, resource_type,
      resource_id, resource_name, details, ip_address, user_agent, result, seq, checksum, prev_checksum)
    select uuidv7(make_interval(secs => -63072000.0 * (1 - i / ${entries}.0))), c.org_id, c.partner_id,
      now() - make_interval(secs => 63072000.0 * (1 - i / ${entries}.0)),
      case when is_agent then 'agent' else 'user' end,
      case when is_agent then md5('device ' || place || ' ' || device)::uuid else md5('person ' || place || ' ' || person)::uuid end,
      case when is_agent then null else 'p' || person || '.c' || place || '@example.com' end,
      case when is_agent then 'agent.event.' || kind when rare < 0.00002 then 'user.mfa.disable' else 'thing' || kind % 8 || '.action' || kind end,
      case when is_agent then 'device' when rare < 0.00002 then 'mfa' else 'thing' || kind % 8 end,
      md5('device ' || place || ' ' || device)::uuid,
      case when is_agent then 'host-' || place || '-' || device when rare < 0.00002 then 'second factor'
        else 'Thing ' || device % 500 end,
      jsonb_build_object('changedFields', jsonb_build_array('name', 'note'), 'n', i),
      '203.0.113.' || i % 250, 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36', 'success',
      -- Behind what people's sign-ins have left there already.
      seq + 1000, md5(i::text) || md5(place::text), md5(i::text) || md5(seq::text)
    from (
      select *, row_number() over (partition by place order by i) as seq from (
        select i, random() as rare, random() < 0.4 as is_agent, floor(30 * random() ^ 2)::int as kind,
          floor(20 * random() ^ 3)::int as person,
          floor(random() * 2000)::int as device,
          case when r < 0.3 then 0 when r < 0.7 then 1 + floor(99 * (r - 0.3) / 0.4)::int when r < 0.71 then 100
            when r < 0.7102 then 101 + (i % 2)::int
            else 103 + floor(least((r - 0.7102) / 0.2898, 0.999999) * ${OTHERS})::int end as place
        from (select i, random() as r from generate_series(1, ${entries}::bigint) i) drawn
      ) placed
    ) numbered join bench_chains c on c.no = place order by i`,
  );
  await sql(
    `set maintenance_work_mem = '2GB';
    alter table audit_logs add constraint audit_logs_place unique (chain_id, seq),
      add constraint audit_logs_no_fork unique nulls not distinct (chain_id, prev_checksum)`,
  );
  for (const { definition } of indexes) await sql(`set maintenance_work_mem = '2GB'; ${definition}`);
  await sql(
    `begin; set local role svc_system; insert into audit_chain_heads as h (chain_id, seq, checksum, number, at, key_id, signature)
    select distinct on (l.chain_id) l.chain_id, l.seq, l.checksum, 1, now(), k.id, 'none'
    from audit_signing_keys k, audit_logs l order by l.chain_id, l.seq desc
    on conflict (chain_id) do update set seq = excluded.seq, checksum = excluded.checksum; commit`,
  );
  // As the sealer records them.
  await sql(
    `set work_mem = '1GB';
    insert into audit_actors select distinct chain_id, actor_id, actor_email from audit_logs where actor_type <> 'agent'
    on conflict do nothing;
    insert into audit_resources (chain_id, resource_type, resource_name)
    select distinct chain_id, resource_type, resource_name from audit_logs on conflict do nothing`,
  );
  // A table without row-level security would keep the server from starting.
  await sql('drop table bench_chains');
  await sql('vacuum analyze');
}
