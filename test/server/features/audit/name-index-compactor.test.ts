import { expect } from 'chai';
import { NameIndexCompactor } from '../../../../src/features/audit/index.ts';
import { LOCK_NAMES_SHARED } from '../../../../src/features/audit/name-index.queries.ts';

import { withSystem, runPrepared } from '../../../../src/platform/db/transaction.ts';
import { eventually } from '../../../support/eventually.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { type AuditBench, createAuditBench } from '../../../support/audit/audit-support.ts';

describe('the name index compactor', () => {
  let bench: AuditBench;
  let compactor: NameIndexCompactor;
  before(async () => {
    bench = await createAuditBench();
    compactor = new NameIndexCompactor({ db: bench.db, log: quietLog });
  });
  after(async () => {
    await bench.close();
  });

  it('waits for concurrent insertions, so that it skips no name', async () => {
    await bench.add(1, { name: 'first ' });
    await bench.sealer.flush();
    const note = (name: string, meanwhile: () => Promise<void>) =>
      withSystem(bench.db, 'note a name', async (tx) => {
        await runPrepared(tx, LOCK_NAMES_SHARED, []);
        await tx.raw(
          `insert into audit_resources (chain_id, resource_type, resource_name) values (?, 'site', ?)`,
          [bench.orgId, name],
        );
        await meanwhile();
      });
    const waitingForLocks = async () => {
      const [row] = await bench.owner<{ count: number }>(
        `select count(*)::int from pg_locks where locktype = 'advisory' and not granted
          and database = (select oid from pg_database where datname = current_database())`,
      );
      return row?.count;
    };
    let isDone = false;
    let compacting: Promise<number> | undefined;
    await note('slow', async () => {
      await note('quick', async () => {});
      compacting = compactor.compact().finally(() => (isDone = true));
      await eventually(waitingForLocks, (count) => count === 1);
      expect(isDone).to.equal(false);
    });
    await compacting;
    const [{ names } = { names: [] }] = await bench.owner<{ names: string[] }>(
      `select array_agg(name order by name) as names from audit_name_sheets, unnest(names) as name`,
    );
    expect(names).to.include.members(['quick', 'slow']);
    expect(await compactor.compact()).to.equal(0);
  });
});
