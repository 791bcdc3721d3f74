import { expect } from 'chai';
import pg from 'pg';
import { signCheckpoint, checkpointHash, type Checkpoint } from '../../../../src/features/audit/chain.ts';
import { checkStored } from '../../../../src/features/audit/stored-check.ts';
import { readCheckpoints, readHead } from '../../../../src/features/audit/stored-chains.queries.ts';
import { withSystem, withTenant } from '../../../../src/platform/db/transaction.ts';
import type { TenantScope } from '../../../../src/platform/db/tenant-scope.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import { type AuditBench, createAuditBench } from '../../../support/audit/audit-support.ts';

const code = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error: { code?: string }) => error.code,
  );

describe('the audit trail in the database', () => {
  let bench: AuditBench;
  beforeEach(async () => {
    bench = await createAuditBench();
    await bench.add(6);
    await bench.sealer.flush();
    await bench.add(2);
  });
  afterEach(() => bench.close());

  /** Runs statements under a role, as the owner may by SET ROLE; all or nothing. */
  async function as(role: string, ...statements: string[]): Promise<string | undefined> {
    const client = new pg.Client({ connectionString: bench.database.ownerUrl });
    await client.connect();
    try {
      await client.query(`begin; set local role ${role}`);
      for (const statement of statements) await client.query(statement);
      await client.query('commit');
      return 'done';
    } catch (error) {
      return (error as { code?: string }).code;
    } finally {
      await client.end();
    }
  }

  const CHANGES = [
    `update audit_logs set action = 'x'`,
    `update audit_logs set prev_checksum = null`,
    'update audit_logs set seq = seq where false',
    'delete from audit_logs where seq = 6',
    'delete from audit_logs',
    'truncate audit_logs',
    `update audit_outbox set action = 'x'`,
    'truncate audit_outbox',
    'update audit_checkpoints set seq = 1',
    'delete from audit_checkpoints',
    'truncate audit_checkpoints',
    'delete from audit_chain_heads',
    'truncate audit_chain_heads',
    'delete from audit_signing_keys',
    'truncate audit_signing_keys cascade',
  ];

  for (const role of ['muster', 'svc_app', 'svc_system', 'svc_audit_admin']) {
    it(`refuses ${role} every change to what is written`, async () => {
      const answers: Record<string, unknown> = {};
      for (const change of CHANGES) answers[change] = await as(role, change);
      expect(answers).to.deep.equal(Object.fromEntries(CHANGES.map((change) => [change, '42501'])));
    });
  }

  it('lets only the sealer take from the outbox or move a head, and never back', async () => {
    for (const role of ['muster', 'svc_app', 'svc_audit_admin']) {
      expect(await as(role, 'delete from audit_outbox'), role).to.equal('42501');
    }
    for (const role of ['muster', 'svc_app']) {
      expect(await as(role, 'update audit_chain_heads set seq = 100'), role).to.equal('42501');
    }
    expect(await as('svc_system', 'update audit_chain_heads set seq = 5')).to.equal('42501');
  });

  it('lets a tenant write entries of its own to the outbox only, and not see them there', async () => {
    const scope: TenantScope = {
      scope: 'organization',
      userId: newId(),
      partnerId: null,
      orgAccess: 'listed',
      orgIds: [bench.orgId],
    };
    const row = {
      id: newId(),
      org_id: bench.orgId,
      actor_type: 'user',
      actor_id: newId(),
      action: 'site.create',
      resource_type: 'site',
      result: 'success',
    };
    const write = (table: string, more: object = {}) =>
      code(withTenant(bench.db, scope, (tx) => tx(table).insert({ ...row, id: newId(), ...more })));
    expect(await write('audit_outbox')).to.equal('done');
    expect(await write('audit_outbox', { org_id: await bench.organization() })).to.equal('42501');
    expect(await code(withTenant(bench.db, scope, (tx) => tx('audit_outbox').select()))).to.equal('42501');
    expect(await write('audit_logs', { seq: 7, checksum: 'a', prev_checksum: 'b' })).to.equal('42501');
  });

  it('leads what an earlier release writes to the table into the outbox, and so into the chain', async () => {
    const scope: TenantScope = {
      scope: 'organization',
      userId: newId(),
      partnerId: null,
      orgAccess: 'listed',
      orgIds: [bench.orgId],
    };
    const row = (orgId: string) => ({
      id: newId(),
      org_id: orgId,
      actor_type: 'user',
      actor_id: newId(),
      action: 'old.release',
      resource_type: 'site',
      result: 'success',
    });
    await withTenant(bench.db, scope, (tx) => tx('audit_logs').insert(row(bench.orgId)));
    const foreign = row(await bench.organization());
    expect(await code(withTenant(bench.db, scope, (tx) => tx('audit_logs').insert(foreign)))).to.equal(
      '42501',
    );
    await bench.sealer.flush();
    const rows = await bench.owner<{ seq: number; action: string }>(
      'select seq::int, action from audit_logs order by seq desc limit 1',
    );
    expect(rows).to.deep.equal([{ seq: 9, action: 'old.release' }]);
    expect((await checkStored(bench.db, { own: bench.keys })).faults).to.deep.equal([]);
  });

  it('makes a fork impossible for every role that writes', async () => {
    const fork = (
      seq: number,
      prev: string,
    ) => `insert into audit_logs (id, org_id, actor_type, actor_id, action,
        resource_type, result, seq, checksum, prev_checksum)
      select gen_random_uuid(), org_id, 'user', actor_id, 'x', 'x', 'success', ${seq}, 'other', ${prev}
      from audit_logs where seq = 3`;
    for (const [seq, prev] of [
      [3, `'elsewhere'`],
      [77, 'prev_checksum'],
      [78, 'null'],
    ] as const) {
      expect(await as('muster', fork(seq, prev))).to.equal('23505');
    }
  });

  describe('pruned by svc_audit_admin', () => {
    /** What the pruning job will do in its transaction, as SQL: the cut, then the rows, then the first link. */
    async function prune(through: number, changes: { cut?: Partial<Checkpoint>; link?: boolean } = {}) {
      const made = await withSystem(bench.db, 'test', async (tx) => {
        const checkpoints = await readCheckpoints(tx, bench.orgId);
        const head = await readHead(tx, bench.orgId);
        const current = await tx('audit_signing_keys').whereNull('retired_at').first('id');
        const key = await bench.keys.privateKey(tx, current.id);
        const { rows } = await tx.raw('select checksum from audit_logs where seq = ?', [through]);
        const last = checkpoints.at(-1);
        const at = new Date().toISOString();
        const cut = signCheckpoint(
          {
            chainId: bench.orgId,
            kind: 'cut',
            number: (last?.number ?? 0) + 1,
            seq: through,
            checksum: rows[0].checksum,
            previous: last === undefined ? null : checkpointHash(last),
            at,
          },
          key,
        );
        const { seq = 0, checksum = '' } = head ?? {};
        const next = signCheckpoint(
          {
            chainId: bench.orgId,
            kind: 'head',
            number: cut.number + 1,
            seq,
            checksum,
            previous: checkpointHash(cut),
            at,
          },
          key,
        );
        return { cut: { ...cut, ...changes.cut }, next };
      });
      const { cut, next } = made;
      return as(
        'svc_audit_admin',
        `insert into audit_checkpoints (chain_id, kind, number, seq, checksum, previous, at, key_id, signature) values
          ('${cut.chainId}', '${cut.kind}', ${cut.number}, ${cut.seq}, '${cut.checksum}', '${cut.previous}', '${cut.at}', '${cut.keyId}', '${cut.signature}')`,
        `delete from audit_logs where seq <= ${through}`,
        ...(changes.link === false
          ? []
          : [`update audit_logs set prev_checksum = null where seq = ${through + 1}`]),
        `update audit_chain_heads set number = ${next.number}, previous = '${next.previous}', at = '${next.at}', key_id = '${next.keyId}', signature = '${next.signature}'`,
      );
    }
    const faults = async () =>
      (await checkStored(bench.db, { own: bench.keys })).faults.map(({ seq, reason }) => ({ seq, reason }));

    it('loses its oldest entries, the first one left has no prev_checksum, and it is still proven', async () => {
      expect(await prune(3)).to.equal('done');
      const rows = await bench.owner<{ seq: number; linked: boolean }>(
        'select seq::int, prev_checksum is not null as linked from audit_logs order by seq',
      );
      expect(rows).to.deep.equal([
        { seq: 4, linked: false },
        { seq: 5, linked: true },
        { seq: 6, linked: true },
      ]);
      expect(await faults()).to.deep.equal([]);
      await bench.sealer.flush();
      expect(await prune(5)).to.equal('done');
      expect(await faults()).to.deep.equal([]);
    });

    it('goes on behind what was pruned, if all of it was', async () => {
      expect(await prune(6)).to.equal('done');
      expect(await faults()).to.deep.equal([]);
      await bench.sealer.flush();
      expect(await bench.owner('select seq::int from audit_logs order by 1')).to.deep.equal([
        { seq: 7 },
        { seq: 8 },
      ]);
      expect(await faults()).to.deep.equal([]);
    });

    it('is proven even if the link was left', async () => {
      expect(await prune(3, { link: false })).to.equal('done');
      expect(await faults()).to.deep.equal([]);
    });

    it('loses nothing without a cut, and nothing in the middle', async () => {
      expect(await as('svc_audit_admin', 'delete from audit_logs where seq <= 3')).to.equal('42501');
      expect(await as('svc_audit_admin', 'delete from audit_logs where seq = 3')).to.equal('42501');
      expect(await prune(3, { cut: { seq: 2 } })).to.equal('42501');
      expect(await prune(3, { cut: { checksum: 'other' } })).to.equal('42501');
      expect(await prune(3, { cut: { kind: 'head' } })).to.equal('42501');
      expect(
        await as('svc_audit_admin', 'update audit_logs set prev_checksum = null where seq = 4'),
      ).to.equal('42501');
    });

    it('is found out if the cut is not signed, or an entry behind it was changed', async () => {
      expect(await prune(3, { cut: { signature: 'bm90IG9uZQ' } })).to.equal('done');
      expect(await faults()).to.deep.equal([{ seq: 3, reason: 'checkpoint 2: its signature is not valid' }]);
    });

    it('is found out if the first entry left was changed, or is gone too', async () => {
      expect(await prune(3)).to.equal('done');
      const free = (sql: string) =>
        asOwner(
          bench.database.ownerUrl,
          `begin; alter table audit_logs disable trigger user; ${sql}; alter table audit_logs enable trigger user; commit`,
        );
      await free(`update audit_logs set action = 'other' where seq = 4`);
      expect(await faults()).to.deep.equal([{ seq: 4, reason: 'its content does not match its checksum' }]);
      await free('delete from audit_logs where seq = 4');
      expect(await faults()).to.deep.equal([{ seq: 5, reason: 'entry 4 is missing before it' }]);
    });
  });
});
