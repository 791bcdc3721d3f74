import { expect } from 'chai';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createEntryArchive } from '../../../../src/features/audit/audit.work.ts';
import { BundleReader, type BundleReport, type BundleTrust } from '../../../../src/features/audit/bundle.ts';
import { AuditPruner } from '../../../../src/features/audit/audit-pruner.ts';
import { checkStored } from '../../../../src/features/audit/stored-check.ts';
import type { S3Options } from '../../../../src/platform/s3.ts';
import { buildTenant } from '../../../support/factories.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { environmentOf, runMuster } from '../../../support/run-muster.ts';
import { type Fault, S3_KEYS, S3_REGION, type S3Server, startS3Server } from '../../../support/s3-server.ts';
import { createTestApp } from '../../../support/test-app.ts';
import { type AuditBench, createAuditBench } from '../../../support/audit/audit-support.ts';

const SIZES = { portion: 20, step: 8 };

describe('the archive of the audit trail', function () {
  let bench: AuditBench;
  let s3: S3Server;
  beforeEach(async () => {
    bench = await createAuditBench();
    s3 = await startS3Server();
    await bench.owner(`insert into audit_retention_policies (org_id, archive_to_s3) values ($1, true)`, [
      bench.orgId,
    ]);
  });
  afterEach(async () => {
    await s3.close();
    await bench.close();
  });

  const fill = async (...parts: Parameters<AuditBench['add']>[]) => {
    for (const part of parts) {
      await bench.add(...part);
      await bench.sealer.flush();
    }
  };
  const job = (options: Partial<S3Options> = {}) =>
    new AuditPruner({
      db: bench.db,
      adminUrl: bench.database.auditAdminUrl,
      keys: bench.keys,
      archive: createEntryArchive(bench.db, bench.keys, {
        endpoint: s3.url,
        region: S3_REGION,
        bucket: 'archive',
        pathStyle: true,
        ...S3_KEYS,
        ...options,
        timing: { retryMs: 5, patienceMs: 2000, ...options.timing },
      }),
      log: quietLog,
      sizes: SIZES,
    });
  const nameOf = (first: number, last: number) =>
    `audit/${bench.orgId}/${[first, last].map((seq) => String(seq).padStart(12, '0')).join('-')}.jsonl`;
  const linesOf = (name: string) => String(s3.objects.get(name)).trimEnd().split('\n');
  function reportOf(lines: readonly string[], trust: BundleTrust = {}): BundleReport {
    const reader = new BundleReader(trust);
    for (const line of lines) reader.line(line);
    return reader.end();
  }
  const seqs = async () =>
    (
      await bench.owner<{ seq: number }>('select seq::int from audit_logs where chain_id = $1 order by 1', [
        bench.orgId,
      ])
    ).map(({ seq }) => seq);
  const faults = async () => (await checkStored(bench.db, { own: bench.keys })).faults;
  const failure = async () =>
    (
      await bench.owner<{ last_failure: string | null }>('select last_failure from audit_retention_policies')
    )[0]?.last_failure;

  it('has every entry that is removed, in bundles which each prove themselves and follow one another', async () => {
    await fill([30, { daysAgo: 500 }], [15, { daysAgo: 400 }], [5]);
    expect(await job().prune()).to.deep.equal({ ran: 'here', removed: 45, failed: 0 });
    expect([...s3.objects.keys()]).to.deep.equal([nameOf(1, 20), nameOf(21, 40), nameOf(41, 45)]);
    expect(await seqs()).to.deep.equal([46, 47, 48, 49, 50]);
    expect(await faults()).to.deep.equal([]);

    let known: BundleReport['head'];
    for (const name of s3.objects.keys()) {
      const report = reportOf(linesOf(name), known === undefined ? {} : { known: [known] });
      expect(report.fault, name).to.equal(undefined);
      expect([report.isArchive, report.chainId]).to.deep.equal([true, bench.orgId]);
      known = report.head;
    }
    // What is left in the database follows the last of them.
    const cut = await bench.owner(
      `select seq::int, checksum from audit_checkpoints where kind = 'cut' order by number desc limit 1`,
    );
    expect(cut).to.deep.equal([{ seq: known?.seq, checksum: known?.checksum }]);
  });

  it('is found out if any entry of it, its end or its beginning was changed', async () => {
    await fill([40, { daysAgo: 400 }], [2]);
    await job().prune();
    const lines = linesOf(nameOf(21, 40));
    const first = lines.findIndex((line) => line.includes('"type":"entry"'));
    expect(lines.length - first).to.equal(20);
    const reasonOf = (changed: string[]) => reportOf(changed).fault?.reason;
    for (let i = first; i < lines.length; i++) {
      const altered = lines.with(i, lines[i]!.replace('site.update', 'site.delete'));
      expect(reportOf(altered).fault?.seq, `${i}`).to.equal(21 + i - first);
      expect(reasonOf(lines.toSpliced(i, 1)), `without ${i}`).to.be.a('string');
    }
    expect(reasonOf(lines.filter((line) => !line.includes('"type":"checkpoint"')))).to.contain(
      'missing before',
    );
    expect(reasonOf(lines.slice(0, -5))).to.contain('missing at the end');
    const head = (text: string) => lines.with(0, lines[0]!.replace(/"seq":40/, text));
    expect(reasonOf(head('"seq":39'))).to.contain('its signature is not valid');
    // The head of a chain is not taken for an archive's: then all checkpoints must be there.
    expect(reasonOf(lines.with(0, lines[0]!.replace('"kind":"cut"', '"kind":"head"')))).to.be.a('string');
  });

  it('keeps everything if it cannot be written to, says why, and goes on when it can', async () => {
    await fill([30, { daysAgo: 400 }], [2]);
    const all = await seqs();
    const other = await bench.organization();
    await fill([3, { daysAgo: 400, orgId: other }]);
    const wrong: [Partial<S3Options>, RegExp][] = [
      [{ secretAccessKey: 'other' }, /403: SignatureDoesNotMatch/],
      [{ accessKeyId: 'other' }, /403: InvalidAccessKeyId/],
      [{ bucket: 'missing' }, /404: NoSuchBucket/],
      [{ endpoint: 'http://127.0.0.1:1' }, /could not be reached/],
    ];
    for (const [options, reason] of wrong) {
      expect(await job(options).prune()).to.include({ failed: 1 });
      expect(await failure()).to.match(reason);
      expect(await seqs()).to.deep.equal(all);
    }
    // Another organization, which wants no copies, does not suffer from it.
    expect(await bench.owner('select 1 from audit_logs where chain_id = $1', [other])).to.deep.equal([]);
    const broken: [string, Fault][] = [
      ['PUT', 'break'],
      ['PUT', 'damage'],
      ['PUT', { status: 507, code: 'InsufficientStorage' }],
      ['GET', 'too small'],
      ['GET', 'break'],
      ['GET', { status: 403, code: 'AccessDenied' }],
    ];
    for (const [call, fault] of broken) {
      s3.onCall = ({ name }) => (name === call ? fault : undefined);
      expect(await job().prune(), call).to.deep.equal({ ran: 'here', removed: 0, failed: 1 });
      expect(await seqs()).to.deep.equal(all);
    }
    s3.onCall = () => new Promise(() => {});
    expect(await job({ timing: { patienceMs: 50 } }).prune()).to.include({ removed: 0, failed: 1 });
    expect(await failure()).to.contain('gave no answer');

    s3.onCall = undefined;
    expect(await job().prune()).to.include({ removed: 30, failed: 0 });
    expect([await failure(), await seqs(), await faults()]).to.deep.equal([null, [31, 32], []]);
  });

  it('has what was removed before it failed, and nothing else is gone', async () => {
    await fill([50, { daysAgo: 400 }], [2]);
    s3.onCall = ({ name, count }) =>
      name === 'PUT' && count === 2 ? { status: 403, code: 'AccessDenied' } : undefined;
    expect(await job().prune()).to.include({ removed: 20, failed: 1 });
    expect((await seqs())[0]).to.equal(21);
    s3.onCall = undefined;
    expect(await job().prune()).to.include({ removed: 30 });
    const entries = [...s3.objects.keys()].flatMap((name) =>
      linesOf(name)
        .map((line) => JSON.parse(line))
        .filter(({ type }) => type === 'entry')
        .map(({ seq }) => seq as number),
    );
    expect(entries).to.deep.equal(Array.from({ length: 50 }, (_, i) => i + 1));
  });

  it('lets the server close while it is slow', async () => {
    await fill([30, { daysAgo: 400 }]);
    const closing = new AbortController();
    let asked = () => {};
    const isAsked = new Promise<void>((resolve) => (asked = resolve));
    s3.onCall = () => {
      asked();
      return new Promise(() => {});
    };
    const running = job().prune(closing.signal);
    await isAsked;
    closing.abort();
    expect(await running).to.deep.equal({ ran: 'here', removed: 0, failed: 0 });
    expect(await seqs()).to.have.lengthOf(30);
  });

  const environment = () => ({
    ...environmentOf(bench.database, tmpdir()),
    AUDIT_ARCHIVE_BUCKET: 'archive',
    AUDIT_ARCHIVE_ENDPOINT: s3.url,
    AUDIT_ARCHIVE_REGION: S3_REGION,
    AUDIT_ARCHIVE_ACCESS_KEY_ID: S3_KEYS.accessKeyId,
    AUDIT_ARCHIVE_SECRET_ACCESS_KEY: S3_KEYS.secretAccessKey,
  });
  const muster = (env: Record<string, string>, ...args: string[]) => runMuster(['audit', ...args], { env });

  it('is written and the entries removed by `muster audit prune`', async () => {
    await fill([30, { daysAgo: 400 }], [2]);
    const ran = await muster(environment(), 'prune');
    expect(ran).to.deep.equal({ code: 0, err: '', out: '30 entries removed\n' });
    expect([await seqs(), [...s3.objects.keys()]]).to.deep.equal([[31, 32], [nameOf(1, 30)]]);
  });

  it('is checked by `muster audit verify`, with no server and no setting', async () => {
    await fill([25, { daysAgo: 400 }]);
    await job().prune();
    const folder = await mkdtemp(path.join(tmpdir(), 'muster-archive-'));
    try {
      const files = await Promise.all(
        [...s3.objects].map(async ([name, bytes]) => {
          const file = path.join(folder, path.basename(name));
          await writeFile(file, bytes);
          return file;
        }),
      );
      const [first = '', second = ''] = files;
      const plain = {};
      const checked = await muster(plain, 'verify', '--bundle', first);
      expect([checked.code, checked.err]).to.deep.equal([0, '']);
      expect(checked.out)
        .to.match(/^OK +20 entries/m)
        .and.contain('This is an archive of entries removed from the chain');
      expect(await muster(plain, 'verify', '--bundle', second, '--known', first)).to.include({ code: 0 });
      await writeFile(first, String(s3.objects.get(nameOf(1, 20))).replace('"n":7', '"n":8'));
      expect(await muster(plain, 'verify', '--bundle', first)).to.include({ code: 1 });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it('fails by the command line with 1 if the copy does', async () => {
    await fill([5, { daysAgo: 400 }]);
    const env = { ...environment(), AUDIT_ARCHIVE_BUCKET: 'missing' };
    const ran = await muster(env, 'prune');
    expect(ran.code).to.equal(1);
    expect(ran.out).to.contain('0 entries removed; 1 chains failed');
    expect(ran.err).to.contain('audit.not_pruned');
    expect(await muster({ ...environment(), AUDIT_ADMIN_DATABASE_URL: '' }, 'prune')).to.include({ code: 2 });
  });

  it('can be chosen if the server has one', async () => {
    const app = await createTestApp({
      env: {
        AUDIT_ARCHIVE_BUCKET: 'archive',
        AUDIT_ARCHIVE_ENDPOINT: s3.url,
        AUDIT_ARCHIVE_ACCESS_KEY_ID: 'a',
        AUDIT_ARCHIVE_SECRET_ACCESS_KEY: 'b',
      },
    });
    const { orgId, admin } = await buildTenant(app);
    const { status, body } = await app.call('PUT', `/orgs/organizations/${orgId}/audit-retention`, {
      token: admin.token,
      body: { retentionDays: 365, archiveToS3: true },
    });
    expect([status, body.archiveToS3, body.archive]).to.deep.equal([200, true, 'on']);
    await app.close();
  });
});
