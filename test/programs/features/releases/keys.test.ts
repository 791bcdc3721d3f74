import { expect } from 'chai';
import { verify } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { loadTrustedKeys } from '../../../../src/agent/os/releases/release-check.ts';
import { createAuditTrail } from '../../../../src/features/audit/index.ts';
import { addRelease, promoteVersion, signReleases } from '../../../../src/features/releases/operator.ts';
import { ReleaseFiles } from '../../../../src/features/releases/release-files.ts';
import { ReleaseKeys } from '../../../../src/features/releases/release-keys.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { createEncryptor } from '../../../../src/platform/secrets/sealed.ts';
import { canonicalReleaseKey, type ReleaseKey } from '../../../../src/protocol/index.ts';
import { agentCommand } from '../../../support/agent-program.ts';
import { buildEnrollmentKey, buildTenant, MACHINE } from '../../../support/factories.ts';
import { createTestApp, TEST_ENCRYPTION_KEY, type TestApp } from '../../../support/test-app.ts';
import { recordingLog } from '../../../support/quiet-log.ts';
import { query } from '../../../support/releases/release-support.ts';

describe('the keys that sign releases', function () {
  this.timeout(120_000);
  let app: TestApp;
  const keys = new ReleaseKeys(createEncryptor({ current: TEST_ENCRYPTION_KEY, old: [] }));
  beforeEach(async () => {
    app = await createTestApp();
  });
  afterEach(() => app.close());

  const rotate = (vouched = true) =>
    withSystem(app.server.database.pool, 'test', (tx) => keys.rotate(tx, { vouched }));
  async function published(): Promise<ReleaseKey[]> {
    const { status, body } = await app.call('GET', '/agent-versions/keys');
    expect(status, JSON.stringify(body)).to.equal(200);
    return body.keys;
  }
  /** As an agent that trusts one key comes to trust others. */
  function trustedFrom(first: ReleaseKey, all: readonly ReleaseKey[]): string[] {
    const trusted = new Map([[first.id, first]]);
    for (const key of all) {
      const before = trusted.get(key.signedBy ?? '');
      if (before === undefined || key.signature === undefined) continue;
      const signature = Buffer.from(key.signature, 'base64url');
      if (verify(null, Buffer.from(canonicalReleaseKey(key)), before.publicKey, signature)) {
        trusted.set(key.id, key);
      }
    }
    return [...trusted.keys()];
  }

  it('are public, oldest first, each signed by the one before it', async () => {
    const [first] = await published();
    expect(first).to.have.all.keys('id', 'publicKey');
    const second = await rotate();
    const third = await rotate();
    const all = await published();
    expect(all).to.deep.equal([first, second, third]);
    expect([second.signedBy, third.signedBy]).to.deep.equal([first!.id, second.id]);
    expect(trustedFrom(first!, all)).to.deep.equal(all.map(({ id }) => id));
    const altered = all.map((key) => (key.id === second.id ? { ...key, publicKey: third.publicKey } : key));
    expect(trustedFrom(first!, altered), 'a key that nobody has signed').to.deep.equal([first!.id]);
    expect(JSON.stringify(all)).not.to.contain('PRIVATE');
  });

  it('form one chain if several servers replace them at once', async () => {
    const [first] = await published();
    await Promise.all([rotate(), rotate(), rotate(), rotate()]);
    const all = await published();
    expect(all.map(({ signedBy }) => signedBy)).to.deep.equal([
      undefined,
      ...all.slice(0, -1).map(({ id }) => id),
    ]);
    expect(trustedFrom(first!, all)).to.have.lengthOf(5);
  });

  it('are listed by the chain, even if a transaction that began first has replaced its key last', async () => {
    const before = await published();
    await withSystem(app.server.database.pool, 'test', async (tx) => {
      await tx.raw('select now()');
      await rotate();
      await keys.rotate(tx, { vouched: true });
    });
    const all = await published();
    expect(all).to.have.lengthOf(before.length + 2);
    expect(all.slice(1).map(({ signedBy }) => signedBy)).to.deep.equal(all.slice(0, -1).map(({ id }) => id));
  });

  it('begin a new chain only if it is asked for: if the present key cannot be opened', async () => {
    const [lost] = await published();
    await query(app, `update release_signing_keys set sealed_private_key = 'lost'`);
    expect(await published(), 'a key that cannot sign is none').to.deep.equal([]);
    const fresh = new ReleaseKeys(createEncryptor({ current: TEST_ENCRYPTION_KEY, old: [] }));
    const refused = await withSystem(app.server.database.pool, 'test', (tx) =>
      fresh.rotate(tx, { vouched: true }),
    ).catch((error: unknown) => error);
    expect(refused).to.be.instanceOf(Error);
    expect(await query(app, 'select id from release_signing_keys where retired_at is null')).to.deep.equal([
      { id: lost!.id },
    ]);
    const next = await rotate(false);
    expect(next).to.have.all.keys('id', 'publicKey');
    expect(await published()).to.deep.equal([next]);
  });

  it('are handed out at the enrollment, and kept by the agent', async () => {
    await rotate();
    const tenant = await buildTenant(app);
    const key = await buildEnrollmentKey(app, tenant.orgId);
    const { status, body } = await app.call('POST', '/agents/enroll', {
      body: { ...MACHINE, enrollmentKey: key },
    });
    expect([status, body.config.releaseKeys]).to.deep.equal([201, await published()]);

    const folder = await mkdtemp(path.join(tmpdir(), 'muster-keys-'));
    try {
      const enroll = ['enroll', '--server', app.url, '--data-dir', folder, '--machine-id', 'another'];
      const { code, output } = await agentCommand([...enroll, '--key', key]);
      expect(code, output).to.equal(0);
      expect(await loadTrustedKeys(folder)).to.deep.equal(await published());
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it('sign again what earlier ones have signed, and nothing that a person has altered', async () => {
    const dataDir = await mkdtemp(path.join(tmpdir(), 'muster-keys-'));
    const parts = {
      db: app.server.database.pool,
      log: recordingLog().log,
      audit: createAuditTrail({ wake() {} }),
      files: new ReleaseFiles(dataDir),
      keys,
      promotesItself: false,
    };
    try {
      const file = path.join(dataDir, 'agent');
      await writeFile(file, 'agent');
      const add = (version: string) =>
        addRelease(
          parts,
          { version, component: 'agent', os: 'linux', architecture: 'x64' },
          { path: file, sha256: undefined, notes: undefined },
        );
      const versions = (releases: { version: string }[]) => releases.map(({ version }) => version);
      await add('1.0.0');
      await add('1.0.1');
      expect(await signReleases(parts, {})).to.deep.equal({ signed: [], refused: [] });
      const next = await rotate();
      await query(app, `update agent_releases set size = size + 1 where version = '1.0.1'`);
      const { signed, refused } = await signReleases(parts, {});
      expect([versions(signed), versions(refused)]).to.deep.equal([['1.0.0'], ['1.0.1']]);
      expect(signed[0]!.keyId).to.equal(next.id);
      await promoteVersion(parts, { version: '1.0.0' });
      const failure = await promoteVersion(parts, { version: '1.0.1' }).catch((error: unknown) => error);
      expect(failure).to.include({ code: 'release_untrusted' });

      expect((await add('1.0.1')).change, 'with its file at hand').to.equal('signed');
      expect((await add('1.0.1')).change).to.equal('none');
      await promoteVersion(parts, { version: '1.0.1' });
      await app.server.chainWriter.flush();
      const entries = await query(
        app,
        `select resource_name from audit_logs where action = 'agent_version.sign'`,
      );
      expect(entries).to.have.deep.members([{ resource_name: '1.0.0' }, { resource_name: '1.0.1' }]);
    } finally {
      await rm(dataDir, { recursive: true });
    }
  });
});
