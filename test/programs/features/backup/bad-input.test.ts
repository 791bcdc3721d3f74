import { expect } from 'chai';
import { readFileSync } from 'node:fs';
import { newId } from '../../../../src/platform/ids.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant, storedText } from '../../../support/backup/backup-support.ts';
import { inSystem } from '../../../support/backup/store-support.ts';
import { buildVaultDevice } from '../../../support/backup/vaults/vault-support.ts';
import { insertRestore } from '../../../support/backup/restore-rows.ts';

/** What nobody should send to the routes of backups: ids of another tenant, and paths and places that cannot be. */

type Call = readonly [method: string, path: string, body?: unknown];

/** Of a machine that has nothing but a token. */
const BY_TOKEN = ['authenticate', 'progress', 'complete'];

const ROUTES = JSON.parse(readFileSync('docs/openapi.json', 'utf8')) as { paths: Record<string, object> };
/** Below which rows of a tenant are looked for that have changed. */
const TABLES = [
  'backup_configs',
  'backup_encryption_keys',
  'backup_repositories',
  'backup_jobs',
  'backup_snapshots',
  'backup_restore_facts',
  'backup_database_instances',
  'backup_vm_restores',
  'backup_recovery_tokens',
  'backup_verification_facts',
  'work',
  'backup_vaults',
  'backup_vault_sync_facts',
  'backup_sla_configs',
  'commands',
];

describe('bad input to the routes of backups', function () {
  this.timeout(60_000);
  let app: TestApp;
  let foreign: Awaited<ReturnType<typeof buildGround>>;
  let own: Awaited<ReturnType<typeof buildGround>>;

  before(async () => {
    app = await createTestApp();
    foreign = await buildGround(await buildBackupTenant(app), 'Of somebody else');
    own = await buildGround(await buildBackupTenant(app), 'Own');
  });
  after(async () => app?.close());

  /** One of everything. */
  async function buildGround(tenant: BackupTenant, name: string) {
    const { id: configId } = await tenant.createConfig({ name });
    const { id: localConfigId } = await tenant.createConfig({
      name: `${name}: disk`,
      provider: 'local',
      details: { path: '/mnt/disk' },
    });
    const device = await buildVaultDevice(app, tenant, configId);
    const { deviceId, vaultId } = device;
    const engineId = await device.addSnapshot(1);
    const [{ id: snapshotId }] = await inSystem(app, (tx) =>
      tx('backup_snapshots').where({ engine_id: engineId }),
    );
    const sent = async (path: string, body: unknown): Promise<string> => {
      const answer = await tenant.send('POST', path, body);
      expect(answer.status, JSON.stringify(answer.body)).to.equal(201);
      return answer.body.id;
    };
    const jobId = await sent(`/backup/jobs/run/${deviceId}`, { configId });
    const slaId = await sent('/backup/sla/configs', {
      orgId: tenant.orgId,
      name,
      rpoTargetMinutes: 60,
      rtoTargetMinutes: 60,
    });
    const restoreId = await inSystem(app, (tx) =>
      insertRestore(tx, { orgId: tenant.orgId, deviceId, facts: { snapshot_id: snapshotId } }),
    );
    const vmId = newId();
    await inSystem(app, (tx) =>
      tx('backup_vm_restores').insert({
        id: vmId,
        org_id: tenant.orgId,
        device_id: deviceId,
        snapshot_id: snapshotId,
        kind: 'instant_boot',
        hypervisor: 'kvm',
        vm_name: name,
        spec: {
          memoryMb: 512,
          cpuCount: 1,
          diskSizeGb: null,
          format: 'qcow2',
          start: true,
          network: { type: 'none' },
          targetPath: null,
        },
        status: 'active',
        is_operating: false,
        operation: 'boot',
        holds_snapshot: true,
        command_id: newId(),
        expires_at: new Date(Date.now() + 86_400_000),
      }),
    );
    const recoveryId = newId();
    await inSystem(app, (tx) =>
      tx('backup_recovery_tokens').insert({
        id: recoveryId,
        org_id: tenant.orgId,
        device_id: deviceId,
        snapshot_id: snapshotId,
        restore_type: 'bare_metal',
        token_hash: recoveryId,
        expires_at: new Date(Date.now() + 86_400_000),
      }),
    );
    return {
      recoveryId,
      tenant,
      name,
      configId,
      localConfigId,
      deviceId,
      vaultId,
      snapshotId,
      jobId,
      slaId,
      restoreId,
      vmId,
    };
  }

  /** Each route, with an id of the other tenant wherever it takes one. */
  function withForeignIds(): Call[] {
    const {
      tenant: theirs,
      configId,
      deviceId,
      vaultId,
      snapshotId,
      jobId,
      restoreId,
      recoveryId,
      vmId,
    } = foreign;
    const { orgId, keyId } = theirs;
    const mine = own.tenant.newConfig;
    const local = { provider: 'local', details: { path: '/mnt/other' } };
    const sla = { name: 'Mine', rpoTargetMinutes: 1, rtoTargetMinutes: 1 };
    const until = new Date(Date.now() + 86_400_000).toISOString();
    const lists = ['configs', 'jobs', 'snapshots', 'restore', 'verifications', 'encryption/keys', 'vault'];
    const byDevice = ['jobs', 'snapshots', 'restore', 'verifications', 'vault', 'recovery-readiness'];
    const ofOrganization = [...lists, 'sla/configs', 'sla/events', 'dashboard', 'usage-history', 'health'];
    return [
      ...[...ofOrganization, 'recovery-readiness'].map(
        (list): Call => ['GET', `/backup/${list}?orgId=${orgId}`],
      ),
      ...byDevice.map((list): Call => ['GET', `/backup/${list}?deviceId=${deviceId}`]),
      ['GET', `/backup/jobs?configId=${configId}`],
      ['GET', `/backup/snapshots?configId=${configId}`],
      ['GET', `/backup/restore?snapshotId=${snapshotId}`],
      ['GET', `/backup/sla/events?configId=${foreign.slaId}`],
      ['GET', `/backup/status/${deviceId}`],
      ['GET', `/backup/vss/status/${deviceId}`],
      ...['hyperv', 'kvm'].flatMap((hypervisor): Call[] => [
        ['GET', `/backup/${hypervisor}/vms?orgId=${orgId}`],
        ['GET', `/backup/${hypervisor}/vms?deviceId=${deviceId}&refresh=true`],
        ['GET', `/backup/${hypervisor}/vms/${deviceId}`],
        ['GET', `/backup/${hypervisor}/vms/${deviceId}?refresh=true`],
        ['POST', `/backup/${hypervisor}/backup`, { deviceId, vmName: 'a' }],
        [
          'POST',
          `/backup/${hypervisor}/backup`,
          { deviceId, vmName: 'a', exportPath: String.raw`C:\Exports` },
        ],
        ['POST', `/backup/${hypervisor}/backup`, { deviceId: own.deviceId, vmName: 'a', configId }],
        ['POST', `/backup/${hypervisor}/restore`, { snapshotId }],
        ['POST', `/backup/${hypervisor}/restore`, { snapshotId, deviceId: own.deviceId }],
        ['POST', `/backup/${hypervisor}/checkpoint`, { deviceId, vmName: 'a', action: 'create' }],
        ['POST', `/backup/${hypervisor}/vm-state`, { deviceId, vmName: 'a', state: 'force_stop' }],
      ]),
      ['GET', `/backup/mssql/instances?orgId=${orgId}`],
      ['GET', `/backup/mssql/instances/${deviceId}`],
      ['GET', `/backup/mssql/chains?deviceId=${deviceId}&instance=A&database=a`],
      [
        'POST',
        '/backup/mssql/backup',
        { deviceId, instance: 'A', database: 'a', backupType: 'full', outputPath: String.raw`D:\a` },
      ],
      [
        'POST',
        '/backup/mssql/restore',
        { deviceId, instance: 'A', backupFile: String.raw`D:\a`, targetDatabase: 'a' },
      ],
      ['POST', '/backup/configs', mine({ name: 'A', orgId })],
      ['POST', '/backup/configs', mine({ name: 'B', encryptionKeyId: keyId })],
      ['POST', '/backup/configs', mine({ name: 'C', targets: { deviceIds: [deviceId] } })],
      ['PATCH', `/backup/configs/${own.configId}`, { targets: { deviceIds: [deviceId] } }],
      ['GET', `/backup/configs/${configId}`],
      ['PATCH', `/backup/configs/${configId}`, { enabled: false }],
      ['DELETE', `/backup/configs/${configId}?keepSnapshots=true`],
      ['POST', `/backup/configs/${configId}/test`, {}],
      ['POST', `/backup/configs/${own.localConfigId}/test`, { deviceId }],
      ['POST', `/backup/jobs/run/${deviceId}`, {}],
      ['POST', '/backup/jobs/bulk', { deviceIds: [deviceId] }],
      ['POST', `/backup/jobs/run/${own.deviceId}`, { configId }],
      ['GET', `/backup/jobs/${jobId}`],
      ['POST', `/backup/jobs/${jobId}/cancel`],
      ['GET', `/backup/snapshots/${snapshotId}`],
      ['GET', `/backup/snapshots/${snapshotId}/browse`],
      ['GET', `/backup/snapshots/${snapshotId}/search?name=a`],
      ['GET', `/backup/snapshots/${snapshotId}/download`],
      ['GET', `/backup/snapshots/${snapshotId}/diff?against=${own.snapshotId}`],
      ['GET', `/backup/snapshots/${own.snapshotId}/diff?against=${snapshotId}`],
      ['POST', `/backup/snapshots/${snapshotId}/legal-hold`, { hold: true, reason: 'Mine' }],
      ['POST', `/backup/snapshots/${snapshotId}/immutability`, { until }],
      ['GET', `/backup/snapshots/${snapshotId}/machine`],
      ['POST', '/backup/restore', { snapshotId }],
      ['POST', '/backup/restore', { snapshotId, restoreType: 'image', targetPath: '/srv/disk.raw' }],
      ['POST', '/backup/restore', { snapshotId, deviceId: own.deviceId }],
      ['GET', `/backup/restore/${restoreId}`],
      ['POST', `/backup/restore/${restoreId}/cancel`],
      ['POST', `/backup/restore/${restoreId}/rerun`, {}],
      ['GET', `/backup/databases/instances?orgId=${orgId}`],
      ['GET', `/backup/databases/instances?deviceId=${deviceId}`],
      ['GET', `/backup/databases/instances?deviceId=${deviceId}&refresh=true`],
      ['GET', `/backup/databases/instances/${deviceId}`],
      ['GET', `/backup/databases/instances/${deviceId}?refresh=true`],
      ['GET', `/backup/databases/chains?deviceId=${deviceId}`],
      ['GET', `/backup/databases/chains?deviceId=${own.deviceId}&configId=${configId}`],
      ['POST', '/backup/databases/restore', { snapshotId, targetPath: '/srv/db' }],
      ['POST', '/backup/databases/restore', { snapshotId, deviceId: own.deviceId, targetPath: '/srv/db' }],
      ['POST', '/backup/restore/as-vm', { snapshotId, hypervisor: 'kvm', vmName: 'a' }],
      ['POST', '/backup/restore/as-vm/estimate', { snapshotId }],
      ['POST', '/backup/restore/instant-boot', { snapshotId, vmName: 'a' }],
      ['POST', '/backup/restore/instant-boot', { snapshotId, targetDeviceId: own.deviceId, vmName: 'a' }],
      ['GET', `/backup/restore/vm?orgId=${orgId}`],
      ['GET', `/backup/restore/vm?deviceId=${deviceId}`],
      ['GET', `/backup/restore/instant-boot/active?orgId=${orgId}`],
      ['GET', `/backup/restore/instant-boot/active?deviceId=${deviceId}`],
      ['POST', `/backup/restore/instant-boot/${vmId}/migrate`, {}],
      ['POST', `/backup/restore/instant-boot/${vmId}/discard`, {}],
      ['POST', `/backup/restore/instant-boot/${vmId}/start`, {}],
      ['GET', `/backup/restore/vm/${vmId}`],
      ['POST', `/backup/restore/vm/${vmId}/cancel`],
      ['POST', '/backup/verify', { deviceId, verificationType: 'integrity' }],
      ['POST', '/backup/verify', { deviceId: own.deviceId, verificationType: 'test_restore', snapshotId }],
      ['POST', '/backup/verify', { deviceId: own.deviceId, verificationType: 'integrity', configId }],
      ['POST', '/backup/encryption/keys', { orgId, name: 'Mine' }],
      ['GET', `/backup/encryption/keys/${keyId}`],
      ['POST', `/backup/encryption/keys/${keyId}/rotate`],
      ['GET', `/backup/encryption/keys/${keyId}/recovery-kit`],
      ['POST', '/backup/vault', { deviceId, ...local }],
      ['POST', '/backup/vault', { deviceId: own.deviceId, configId, ...local }],
      ['POST', '/backup/vault', { deviceId: own.deviceId, encryptionKeyId: keyId, ...local }],
      ['GET', `/backup/vault/${vaultId}`],
      ['PATCH', `/backup/vault/${vaultId}`, { isActive: false }],
      ['DELETE', `/backup/vault/${vaultId}?keepSnapshots=true`],
      ['GET', `/backup/vault/${vaultId}/status`],
      ['POST', `/backup/vault/${vaultId}/sync`, {}],
      ['POST', `/backup/vault/${own.vaultId}/sync`, { snapshotId }],
      ['POST', `/backup/vault/${vaultId}/cancel`],
      ['POST', '/backup/bmr/token', { snapshotId }],
      ['GET', `/backup/bmr/token?orgId=${orgId}`],
      ['GET', `/backup/bmr/token?deviceId=${deviceId}`],
      ['GET', `/backup/bmr/token/${recoveryId}`],
      ['DELETE', `/backup/bmr/token/${recoveryId}`],
      ...BY_TOKEN.map((what): Call => ['POST', `/backup/bmr/${what}`, { token: recoveryId }]),
      ['POST', '/backup/sla/configs', { ...sla, orgId }],
      ['PATCH', `/backup/sla/configs/${foreign.slaId}`, { name: 'Taken over' }],
      ['PATCH', `/backup/sla/configs/${own.slaId}`, { targetDevices: [deviceId] }],
      ['DELETE', `/backup/sla/configs/${foreign.slaId}`],
      ['POST', '/backup/sla/configs', { ...sla, orgId: own.tenant.orgId, targetDevices: [deviceId] }],
    ];
  }

  const rowsOf = async (orgId: string) =>
    (await storedText(app, TABLES))
      .split('\n')
      .filter((row) => row.includes(orgId))
      .sort();

  it('reaches nothing of another tenant, on any route', async () => {
    const before = await rowsOf(foreign.tenant.orgId);
    expect(before.length).to.be.greaterThan(8);
    for (const [method, path, body] of withForeignIds()) {
      const what = `${method} ${path} ${JSON.stringify(body ?? null)}`;
      const answer = await own.tenant.send(method, path, body);
      // A request about several devices says of each that there is none.
      const list = answer.body.data ?? answer.body.jobs;
      const isEmptyList = answer.status === 200 && Array.isArray(list) && list.length === 0;
      if (!isEmptyList) {
        expect(answer.status, `${what}: ${JSON.stringify(answer.body)}`).to.be.oneOf([400, 403, 404]);
        expect(answer.body.error, what).to.match(/\w/);
      }
      expect(JSON.stringify(answer.body), what).not.to.contain(foreign.name);
    }
    expect(await rowsOf(foreign.tenant.orgId)).to.deep.equal(before);
  });

  it('is asked of every route that there is', () => {
    const asked = withForeignIds().map(([method, path]) => `${method} ${path.replace(/\?.*/, '')}`);
    const pattern = (path: string) => new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[0-9a-f-]{36}')}$`);
    const missing = Object.entries(ROUTES.paths)
      .filter(([path]) => path.startsWith('/backup/'))
      .flatMap(([path, methods]) =>
        Object.keys(methods).map((method) => ({ method: method.toUpperCase(), path })),
      )
      .filter(({ method, path }) => {
        const [, ...rest] = path.split('/');
        const is = pattern(`${method} /${rest.join('/')}`);
        return !asked.some((call) => is.test(call));
      });
    expect(missing).to.deep.equal([]);
  });

  const LONG = `/${'x'.repeat(5000)}`;
  const query = (path: string) => `path=${encodeURIComponent(path)}`;
  const S3 = {
    bucket: 'backups',
    region: 'eu-central-1',
    accessKey: 'AKIA',
    secretKey: 'a-secret-that-nobody-sees',
  };

  /** What is wrong, the call, the field that the answer names, and the rule. */
  const WRONG: readonly [string, () => Call, string, RegExp][] = [
    ...['browse', 'search', 'download', 'diff'].flatMap((what): [string, () => Call, string, RegExp][] => {
      const call = (path: string) => (): Call => [
        'GET',
        `/backup/snapshots/${own.snapshotId}/${what}?${query(path)}&against=${own.snapshotId}`,
      ];
      return [
        [`${what}: NUL`, call('/a\0b'), 'query.path', /./],
        [`${what}: ..`, call('/a/../../etc'), 'query.path', /must not contain/],
        [`${what}: relative`, call('a'), 'query.path', /path from the root/],
      ];
    }),
    ...(
      [
        ['bucket', { bucket: 'No_Bucket' }, /name of a bucket/],
        ['endpoint', { endpoint: 'http://10.0.0.1' }, /https/],
        ['endpoint', { endpoint: 'https://10.0.0.1/with/path' }, /without path/],
        ['endpoint', { endpoint: 'file:///etc/passwd' }, /https/],
        ['prefix', { prefix: 'a/../b' }, /\.\./],
        ['accessKey', { accessKey: 'a\nb' }, /visible/],
        ['secretKey', { secretKey: 'a b' }, /visible/],
      ] as const
    ).flatMap(([field, given, rule]): [string, () => Call, string, RegExp][] => {
      const details = { ...S3, ...given };
      const vault = (): Call => [
        'POST',
        '/backup/vault',
        { deviceId: own.deviceId, provider: 's3', details },
      ];
      const config = (): Call => [
        'POST',
        '/backup/configs',
        own.tenant.newConfig({ provider: 's3', details }),
      ];
      return [
        [`vault: ${JSON.stringify(given)}`, vault, `body.details.${field}`, rule],
        [`config: ${JSON.stringify(given)}`, config, `body.details.${field}`, rule],
      ];
    }),
    ...['relative', '/a/../b', 'D:', '/a\0b', LONG, ' '].map((path): [string, () => Call, string, RegExp] => [
      `vault on ${JSON.stringify(path.slice(0, 20))}`,
      () => ['POST', '/backup/vault', { deviceId: own.deviceId, provider: 'local', details: { path } }],
      'body.details.path',
      /absolute path|must not contain|1000|blank/,
    ]),
    ...['/a\0b', LONG].map((path): [string, () => Call, string, RegExp] => [
      `restore to ${JSON.stringify(path.slice(0, 20))}`,
      () => ['POST', '/backup/restore', { snapshotId: own.snapshotId, targetPath: path }],
      'body.targetPath',
      /NUL|4000/,
    ]),
    ...(
      [
        ['without a zone', { pointInTime: '2026-11-21T22:00:00' }, 'body.pointInTime', /offset/],
        ['in the future', { pointInTime: '9998-11-21T22:00:00Z' }, 'body.pointInTime', /future/],
        ['to nowhere', { targetPath: '/a\0b' }, 'body.targetPath', /NUL/],
        ['without a folder', { targetPath: undefined }, 'body.targetPath', /./],
      ] as const
    ).map(([what, given, field, rule]): [string, () => Call, string, RegExp] => [
      `a database is restored ${what}`,
      () => [
        'POST',
        '/backup/databases/restore',
        { snapshotId: own.snapshotId, targetPath: '/srv/db', ...given },
      ],
      field,
      rule,
    ]),
    ...(
      [
        [{ engine: 'oracle' }, 'engine', /./],
        [{ engine: 'mariadb', between: 'log' }, 'between', /no log backups/],
        [{ engine: 'postgresql', between: 'differential' }, 'between', /log or none/],
        [{ engine: 'postgresql', fullEveryDays: 0 }, 'fullEveryDays', /1/],
        [{ engine: 'postgresql', instance: 'a\0b' }, 'instance', /NUL/],
      ] as const
    ).map(([given, field, rule]): [string, () => Call, string, RegExp] => [
      `sources ${JSON.stringify(given)}`,
      () => ['POST', '/backup/configs', own.tenant.newConfig({ sources: { kind: 'database', ...given } })],
      `body.sources.${field}`,
      rule,
    ]),
    [
      'a backup of files has a type',
      () => ['POST', `/backup/jobs/run/${own.deviceId}`, { configId: own.localConfigId, backupType: 'log' }],
      'body.backupType',
      /only backups of databases/,
    ],
    [
      'all devices are asked for their databases',
      () => ['GET', '/backup/databases/instances?refresh=true'],
      'query.deviceId',
      /one device/,
    ],
    ...['a\nb', ' ', 'x'.repeat(201), 'a\u2028b'].map((vmName): [string, () => Call, string, RegExp] => [
      `machine ${JSON.stringify(vmName.slice(0, 20))}`,
      () => ['POST', '/backup/restore/instant-boot', { snapshotId: own.snapshotId, vmName }],
      'body.vmName',
      /one line|200/,
    ]),
    ...['br0,model=x', '-x', '../br0', 'x'.repeat(16)].map((bridge): [string, () => Call, string, RegExp] => [
      `bridge ${bridge}`,
      () => [
        'POST',
        '/backup/restore/instant-boot',
        { snapshotId: own.snapshotId, vmName: 'a', network: { type: 'bridge', bridge } },
      ],
      'body.network.bridge',
      /name of a network interface/,
    ]),
    [
      'a destination is tested by nobody',
      () => ['POST', `/backup/configs/${own.localConfigId}/test`, {}],
      'body.deviceId',
      /only a device reaches/,
    ],
  ];

  it('is refused by the name of the field and the rule, and shows no secret', async () => {
    const before = await rowsOf(own.tenant.orgId);
    const failures: string[] = [];
    for (const [what, call, field, rule] of WRONG) {
      const [method, path, body] = call();
      const answer = await own.tenant.send(method, path, body);
      const details: unknown = answer.body.details;
      const issues = Array.isArray(details) ? (details as { path: string; message: string }[]) : [];
      const isNamed = issues.some((issue) => issue.path === field && rule.test(issue.message));
      const text = JSON.stringify(answer.body);
      if (answer.status !== 400 || !isNamed || text.includes(S3.secretKey)) {
        failures.push(`${what}: ${answer.status} ${text.slice(0, 300)}`);
      }
    }
    expect(failures).to.deep.equal([]);
    expect(await rowsOf(own.tenant.orgId)).to.deep.equal(before);
  });
});
