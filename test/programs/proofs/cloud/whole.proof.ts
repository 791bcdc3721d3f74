import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import { asOwner } from '../../../support/test-postgres.ts';
import { createTestApp } from '../../../support/test-app.ts';
import { createCloudFixture } from '../../../support/cloud-backup/cloud-support.ts';
import { eventually } from '../../../support/eventually.ts';

/**
 * `npm run test:cloud`: many items of many users, while Microsoft Graph throttles, fails, breaks off and forgets its links,
 * and two servers share the work. CLOUD_ITEMS and CLOUD_USERS set the size. The memory is that of both servers and of the
 * Microsoft Graph of the test, which holds all items.
 */
const USERS = Number(process.env['CLOUD_USERS'] ?? 50);
const ITEMS = Number(process.env['CLOUD_ITEMS'] ?? 100_000);
const MEMORY_MAX_MIB = 900;
const LOOK_MS = 1000;

describe('a backup of a directory under faults', function () {
  this.timeout(3_600_000);

  it('misses nothing, doubles nothing, and keeps its memory', async () => {
    const cloud = await createCloudFixture({ env: { LOG_LEVEL: 'error' } });
    cloud.graph.pageSize = 100;
    const emails = Array.from({ length: USERS }, (_, i) => `user${i}@example.com`);
    for (const email of emails) {
      const mailbox = cloud.mailbox(email);
      for (let i = 0; i < ITEMS / USERS; i++) mailbox.message(`${email}-${i}`, `Mail ${i}`, 'x'.repeat(500));
    }
    let calls = 0;
    cloud.graph.onCall = ({ path, query, count, isInBatch }) => {
      calls += 1;
      if (path.endsWith('/messages/delta') && query.has('$skiptoken') && count === 8) {
        return { status: 410, body: { error: { code: 'syncStateNotFound', message: '' } } };
      }
      if (isInBatch) return calls % 97 === 0 ? { status: 429 } : undefined;
      if (calls % 1009 === 0) return { status: 429, headers: { 'retry-after': '1' } };
      if (calls % 503 === 0) return { status: 503 };
      if (calls % 701 === 0) return { breaksOff: true, body: { value: [] } };
      return undefined;
    };
    const configId = await cloud.config({ backupScope: ['mail'], targetUsers: emails });
    const begun = performance.now();
    const started = await cloud.call('POST', `/c2c/configs/${configId}/run`);
    let memory = 0;
    const watch = setInterval(() => (memory = Math.max(memory, process.memoryUsage().rss)), 250);
    const second = await createTestApp({
      database: cloud.app.database,
      outbound: { allowHttp: true },
      env: cloud.env,
    });
    // Not over the API: on a busy machine, a run takes longer than a token lasts.
    const [job = { status: 'unknown' }] = await eventually(
      async () => {
        await setTimeout(LOOK_MS);
        return asOwner<{ status: string }>(
          cloud.app.database.ownerUrl,
          `select status from c2c_jobs where id = '${started.body.id as string}' and finished_at is not null`,
        );
      },
      ({ length }) => length === 1,
      3_500_000,
    );
    clearInterval(watch);
    const seconds = Math.round((performance.now() - begun) / 1000);
    const [{ items, due, versions, names } = {}] = await asOwner<Record<string, string>>(
      cloud.app.database.ownerUrl,
      `select count(*) as items, count(*) filter (where is_due or version_id is null) as due,
        count(distinct external_id) as names,
        (select count(*) from c2c_versions) as versions from c2c_items where config_id = '${configId}'`,
    );
    const mib = Math.round(memory / 2 ** 20);
    process.stdout.write(
      `${JSON.stringify({ status: job.status, seconds, calls, items, due, versions, mib })}\n`,
    );
    await second.close();
    await cloud.close();
    expect([Number(items), Number(names), Number(versions)]).to.deep.equal([ITEMS, ITEMS, ITEMS]);
    expect(due).to.equal('0');
    expect(job.status).to.equal('completed');
    expect(mib).to.be.at.most(MEMORY_MAX_MIB);
  });
});
