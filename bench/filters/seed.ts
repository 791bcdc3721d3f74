import { asOwner } from '../../test/support/test-postgres.ts';

/** Creates a large fleet in SQL, stored in the order in which it is read. */

export const DEVICES = Number(process.env['BENCH_DEVICES'] ?? 1_000_000);
export const ORGANIZATIONS = 200;
/** The number of organizations of the measured partner; all others belong to a second partner. */
export const OF_PARTNER = 10;

export const PARTNER = '01900000-0000-7000-8000-000000000001';
const OTHER_PARTNER = '01900000-0000-7000-8000-000000000002';

const id = (kind: number, n: string) =>
  `('0190000${kind}-0000-7000-8000-' || lpad(to_hex((${n})::bigint), 12, '0'))::uuid`;
/** Ids of the seeded rows, computed as in the SQL below. */
export const organizationId = (n: number) => `01900001-0000-7000-8000-${n.toString(16).padStart(12, '0')}`;
export const siteId = (organization: number, n: number) =>
  `01900002-0000-7000-8000-${(organization * 4 + n).toString(16).padStart(12, '0')}`;
export const groupId = (organization: number) =>
  `01900004-0000-7000-8000-${organization.toString(16).padStart(12, '0')}`;

const PER_ORGANIZATION = DEVICES / ORGANIZATIONS;

const STEPS: [string, string][] = [
  [
    'tenants',
    `insert into partners (id, name, slug, status) values ('${PARTNER}', 'Measured', 'measured', 'active'), ('${OTHER_PARTNER}', 'Others', 'others', 'active');
    insert into organizations (id, partner_id, name, slug)
      select ${id(1, 'n')}, case when n < ${OF_PARTNER} then '${PARTNER}' else '${OTHER_PARTNER}' end::uuid, 'Customer ' || n, 'customer-' || n
      from generate_series(0, ${ORGANIZATIONS - 1}) n;
    insert into sites (id, org_id, name) select ${id(2, 'n * 4 + s')}, ${id(1, 'n')}, 'Site ' || s
      from generate_series(0, ${ORGANIZATIONS - 1}) n, generate_series(0, 3) s;
    insert into device_groups (id, org_id, name) select ${id(4, 'n')}, ${id(1, 'n')}, 'Tills' from generate_series(0, ${ORGANIZATIONS - 1}) n`,
  ],
  [
    'devices',
    `insert into devices (id, org_id, site_id, hostname, display_name, condition, os_type, os_version, os_build, architecture, agent_version, tags,
      custom_fields, hardware, network, last_user, enrolled_at)
    select ${id(3, 'n')}, ${id(1, `n / ${PER_ORGANIZATION}`)}, ${id(2, `n / ${PER_ORGANIZATION} * 4 + n % 4`)},
      (array['DESK', 'LAP', 'SRV', 'TILL'])[1 + h % 4] || '-' || substr(md5(n::text), 1, 6),
      case when h % 3 = 0 then 'Machine of ' || substr(md5(h::text), 1, 5) end,
      case when h % 50 = 0 then 'maintenance' when h % 101 = 0 then 'decommissioned' else 'normal' end,
      (array['windows', 'windows', 'windows', 'macos', 'linux'])[1 + h % 5], (array['10.0.19045', '11.0.22631', '14.5', '12', '22.04'])[1 + h % 5],
      case when h % 2 = 0 then (19000 + h % 4000)::text end, (array['x64', 'x64', 'x64', 'arm64'])[1 + h % 4],
      '1.' || h % 7 || '.' || h % 10,
      case when h % 10 = 0 then '{till,store}' when h % 10 = 1 then '{server}' when h % 10 < 5 then '{office}' else '{}' end::text[],
      case when h % 4 = 0 then jsonb_build_object('rack', 'R' || h % 30, 'warranty', '202' || h % 10 || '-06-30') else '{}' end,
      jsonb_build_object('manufacturer', (array['Dell Inc.', 'LENOVO', 'HP', 'Apple'])[1 + h % 4], 'model', 'Model ' || h % 40,
        'serialNumber', md5(n::text), 'cpuModel', 'CPU ' || h % 20, 'cpuCores', (array[2, 4, 8, 16])[1 + h % 4], 'ramTotalMb', 4096 * (1 + h % 8), 'diskTotalGb', 256 * (1 + h % 4)),
      jsonb_build_object('ipAddress', '10.' || h % 200 || '.' || h % 250 || '.' || n % 250, 'publicIp', '203.0.113.' || h % 250,
        'macAddress', '52:54:00:' || regexp_replace(substr(md5(n::text), 7, 6), '(..)(..)(..)', '\\1:\\2:\\3')),
      case when h % 8 > 0 then 'OFFICE\\' || (array['ada', 'grace', 'linus', 'maria'])[1 + h % 4] || '.' || substr(md5(h::text), 1, 4) end,
      now() - (h % 1000) * interval '1 day'
    from (select n, abs(hashint4(n)) as h from generate_series(0, ${DEVICES - 1}) n) as numbered`,
  ],
  [
    'inventories',
    `insert into device_inventory (org_id, device_id, interfaces, collected_at)
    select org_id, id, jsonb_build_array(
      jsonb_build_object('name', 'eth0', 'macAddress', network ->> 'macAddress', 'ipAddresses', jsonb_build_array(network ->> 'ipAddress', 'fd00::' || substr(md5(id::text), 1, 4)), 'isPrimary', true),
      jsonb_build_object('name', 'wlan0', 'macAddress', '02:' || substr(network ->> 'macAddress', 4), 'ipAddresses', jsonb_build_array('fe80::1'), 'isPrimary', false)), now()
    from devices`,
  ],
  [
    'facts for the search',
    `insert into device_search_facts (org_id, device_id, facts)
    select d.org_id, d.id, device_search_text(d.last_user, d.hardware, d.network, d.tags, i.interfaces)
    from devices d join device_inventory i on i.org_id = d.org_id and i.device_id = d.id
    where d.condition <> 'decommissioned' order by d.id`,
  ],
  [
    'presence',
    `insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at, last_ip, cpu_percent, ram_percent, disk_percent, metrics_at)
    select d.id, d.org_id, 1, 'node', case when h % 10 < 8 then 'connected' else 'disconnected' end, now(), 'connected',
      now() - case when h % 10 < 8 then interval '0' else (h % 4000) * interval '1 hour' end, '203.0.113.7', h % 10000 / 100.0, (h / 7) % 10000 / 100.0, (h / 11) % 10000 / 100.0, now()
    from (select id, org_id, abs(hashint4(('x' || right(id::text, 8))::bit(32)::int)) as h from devices) as d where h % 40 <> 0 order by d.id`,
  ],
  [
    'groups',
    `insert into device_group_members (group_id, device_id, org_id)
    select g.id, d.id, d.org_id from devices d join device_groups g on g.org_id = d.org_id where d.tags && '{till}'`,
  ],
  [
    'titles',
    `insert into software_titles (org_id, name) select o.id, case n when 0 then 'Google Chrome' when 1 then 'Mozilla Firefox' when 2 then 'Zoom Workplace' else 'Program ' || md5(n::text) end
    from organizations o, generate_series(0, 499) n order by o.id, n`,
  ],
  [
    'software',
    `insert into device_software (org_id, device_id, title_id, version)
    select d.org_id, d.id, t.first + pick, '1.' || pick from
      (select id, org_id, abs(hashint4(('x' || right(id::text, 8))::bit(32)::int)) as h from devices) as d
      join (select org_id, min(id) as first from software_titles group by org_id) as t on t.org_id = d.org_id
      cross join lateral (select distinct case k when 0 then h % 3 else abs(hashint4(h + k)) % 500 end as pick from generate_series(0, 7) k) as picks
    order by d.org_id, d.id, pick`,
  ],
  ['statistics', 'vacuum analyze'],
];

/** @param without  steps that the measurement does not need */
export async function seed(ownerUrl: string, without: readonly string[] = []): Promise<void> {
  for (const [what, statements] of STEPS) {
    if (without.includes(what)) continue;
    const begun = performance.now();
    // Checking eight million foreign keys one by one would take longer than everything else.
    const prefix = what === 'statistics' ? '' : 'set session_replication_role = replica; ';
    await asOwner(ownerUrl, prefix + statements);
    console.log(`${what}: ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  }
}
