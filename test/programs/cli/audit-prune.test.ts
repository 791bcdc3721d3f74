import { expect } from 'chai';
import { tmpdir } from 'node:os';
import { checkStored } from '../../../src/features/audit/stored-check.ts';
import { type AuditBench, createAuditBench } from '../../support/audit/audit-support.ts';
import { startOperatorProgram } from '../../support/muster-program.ts';
import { environmentOf, runMuster } from '../../support/run-muster.ts';
import { S3_KEYS, S3_REGION, type S3Server, startS3Server } from '../../support/s3-server.ts';

describe('muster audit prune with an archive', function () {
  this.timeout(120_000);
  let bench: AuditBench;
  let s3: S3Server;
  before(async () => {
    bench = await createAuditBench();
    s3 = await startS3Server();
    await bench.owner(`insert into audit_retention_policies (org_id, archive_to_s3) values ($1, true)`, [
      bench.orgId,
    ]);
  });
  after(async () => {
    await s3.close();
    await bench.close();
  });

  it('loses nothing if the process is killed between the copy and the removal', async () => {
    const env = {
      ...environmentOf(bench.database, tmpdir()),
      AUDIT_ARCHIVE_BUCKET: 'archive',
      AUDIT_ARCHIVE_ENDPOINT: s3.url,
      AUDIT_ARCHIVE_REGION: S3_REGION,
      AUDIT_ARCHIVE_ACCESS_KEY_ID: S3_KEYS.accessKeyId,
      AUDIT_ARCHIVE_SECRET_ACCESS_KEY: S3_KEYS.secretAccessKey,
    };
    const seqs = async () => {
      const sql = 'select seq::int from audit_logs where chain_id = $1 order by 1';
      return (await bench.owner<{ seq: number }>(sql, [bench.orgId])).map(({ seq }) => seq);
    };
    for (const daysAgo of [400, 0]) {
      await bench.add(daysAgo === 0 ? 2 : 30, { daysAgo });
      await bench.sealer.flush();
    }
    const all = await seqs();
    const copy = `audit/${bench.orgId}/${'1'.padStart(12, '0')}-${'30'.padStart(12, '0')}.jsonl`;
    let asked = () => {};
    const isStored = new Promise<void>((resolve) => (asked = resolve));
    s3.onCall = ({ name }) => {
      if (name !== 'GET') return undefined;
      asked();
      return new Promise(() => {});
    };
    const { child, ended } = startOperatorProgram('src/cli/muster.ts', ['audit', 'prune'], { env });
    await isStored;
    child.kill('SIGKILL');
    await ended;
    expect(child.signalCode).to.equal('SIGKILL');
    expect([await seqs(), [...s3.objects.keys()]]).to.deep.equal([all, [copy]]);

    s3.onCall = undefined;
    const again = await runMuster(['audit', 'prune'], { env });
    expect(again).to.deep.equal({ code: 0, err: '', out: '30 entries removed\n' });
    expect([await seqs(), [...s3.objects.keys()]]).to.deep.equal([[31, 32], [copy]]);
    expect((await checkStored(bench.db, { own: bench.keys })).faults).to.deep.equal([]);
  });
});
