import { expect } from 'chai';
import { createPrivateKey, randomUUID } from 'node:crypto';
import { BundleReader } from '../../../../src/features/audit/bundle.ts';
import {
  seal,
  type SealedEntry,
  type Checkpoint,
  signCheckpoint,
} from '../../../../src/features/audit/chain.ts';
import { ChainCheck, type Fault, trustedKeys } from '../../../../src/features/audit/chain-check.ts';
import { newKeyPair } from '../../../../src/platform/secrets/stored-signing-keys.ts';
import {
  entryFromCopyRow,
  readCheckpoints,
  readConsistently,
  readEntries,
  readEntryLines,
  readHead,
} from '../../../../src/features/audit/stored-chains.queries.ts';
import { exportBundle } from '../../../../src/features/audit/export.service.ts';
import { ParallelCheck, VerifyWorkerPool } from '../../../../src/features/audit/parallel-check.ts';
import { checkStored, keysByTrust } from '../../../../src/features/audit/stored-check.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { type AuditBench, createAuditBench } from '../../../support/audit/audit-support.ts';

/** The columns that are stored, with their types as Postgres names them. */
const COLUMN_TYPES = {
  id: 'uuid',
  org_id: 'uuid',
  partner_id: 'uuid',
  timestamp: 'timestamptz',
  actor_type: 'text',
  actor_id: 'uuid',
  actor_email: 'varchar',
  action: 'varchar',
  resource_type: 'varchar',
  resource_id: 'uuid',
  resource_name: 'varchar',
  details: 'jsonb',
  ip_address: 'varchar',
  user_agent: 'text',
  result: 'text',
  error_message: 'text',
  seq: 'int8',
  checksum: 'varchar',
  prev_checksum: 'varchar',
};
const COLUMNS = Object.keys(COLUMN_TYPES)
  .map((name) => `"${name}"`)
  .join(', ');

/** Someone with all rights on the database, the owner's and a superuser's, but without the signing key. */
describe('tampering with the audit trail', () => {
  const workers = new VerifyWorkerPool(1);
  let bench: AuditBench;
  let orgId: string;
  /** The head as it was before anyone touched it, as a bundle that somebody kept would have it. */
  let headBefore: Checkpoint;

  before('a database whose triggers and constraints are out of the way', async () => {
    bench = await createAuditBench();
    await bench.owner(
      `alter table audit_logs disable trigger user; alter table audit_chain_heads disable trigger user;
      alter table audit_checkpoints disable trigger user; alter table audit_signing_keys disable trigger user;
      alter table audit_logs drop constraint audit_logs_place, drop constraint audit_logs_no_fork,
        drop constraint audit_logs_pkey, drop constraint audit_logs_actor_type_check,
        drop constraint audit_logs_result_check, drop constraint audit_logs_seq_check, alter column seq drop not null`,
    );
  });
  after(() => Promise.all([bench.close(), workers.close()]));

  // Checkpoint 1 signs entry 10, and checkpoint 2 entry 1100; the head 1130 is behind them.
  const newChain = async () => {
    orgId = await bench.organization();
    for (const count of [10, 90, 1010, 20]) {
      await bench.add(count, { orgId });
      await bench.sealer.flush();
    }
    headBefore = (await withSystem(bench.db, 'test', (tx) => readHead(tx, orgId)))!;
    expect(await faults()).to.deep.equal([]);
    const kept = await withSystem(bench.db, 'test', (tx) => readCheckpoints(tx, orgId));
    expect([...kept.map(({ seq }) => seq), headBefore.seq]).to.deep.equal([10, 1100, 1130]);
  };

  const online = async (known?: Checkpoint): Promise<Fault[]> =>
    (
      await checkStored(
        bench.db,
        { own: bench.keys },
        { only: orgId, known: new Map(known === undefined ? [] : [[orgId, known]]) },
      )
    ).faults;
  const offline = async (known?: Checkpoint): Promise<Fault[]> => {
    const reader = new BundleReader(known === undefined ? {} : { known: [known] });
    await exportBundle(bench.db, orgId, (line) => reader.line(line));
    const { fault } = reader.end();
    return fault === undefined ? [] : [fault];
  };
  /** As a long chain is checked: by threads, a few entries at a time. */
  const inThreads = (known?: Checkpoint): Promise<Fault[]> =>
    withSystem(bench.db, 'test', async (tx) => {
      await readConsistently(tx);
      const [head, checkpoints] = [await readHead(tx, orgId), await readCheckpoints(tx, orgId)];
      const { trusted } = await keysByTrust(tx, { own: bench.keys });
      const check = new ChainCheck(
        { chainId: orgId, head, checkpoints, known: known === undefined ? [] : [known] },
        trustedKeys(trusted),
      );
      const lines = new ParallelCheck(
        {
          format: 'copy',
          line: (line) => check.add(entryFromCopyRow(line)),
          segment: (segment) => check.addSegment(segment),
        },
        workers,
        { chunkBytes: 3000, inlineBytes: 0 },
      );
      await readEntryLines(tx, orgId, (line) => lines.add(line));
      await lines.end();
      const fault = check.end();
      return fault === undefined ? [] : [fault];
    });
  /** What is found in the database, which must be what is found in a bundle of it. */
  async function faults(known?: Checkpoint): Promise<{ seq: number | null; reason: string }[]> {
    const found = await online(known);
    expect(await offline(known)).to.deep.equal(found);
    expect(await inThreads(known)).to.deep.equal(found);
    for (const { id, seq } of found) {
      if (id === null) continue;
      const rows = await bench.owner<{ seq: string | null }>(
        'select seq from audit_logs where id = $1 and chain_id = $2',
        [id, orgId],
      );
      expect(
        rows.some((row) => Number(row.seq ?? 0) === seq),
        id,
      ).to.equal(true);
    }
    return found.map(({ seq, reason }) => ({ seq, reason }));
  }
  const tamper = (sql: string) => bench.owner(sql.replaceAll(':org', `'${orgId}'`));
  const CHANGED = 'its content does not match its checksum';

  describe('is found in every column:', () => {
    before(newChain);

    it('all 19 of the table', async () => {
      const columns = await bench.owner<{ name: string; type: string }>(
        `select column_name as name, udt_name as type from information_schema.columns
        where table_name = 'audit_logs' and is_generated = 'NEVER'`,
      );
      expect(Object.fromEntries(columns.map(({ name, type }) => [name, type]))).to.deep.equal(COLUMN_TYPES);
    });

    const valueSql = (name: string, type: string, other: string) => {
      if (name === 'org_id') return `'${other}'`;
      if (type === 'uuid') return `'${randomUUID()}'`;
      if (type === 'timestamptz') return `"timestamp" + interval '1 millisecond'`;
      if (type === 'jsonb') return `jsonb_set(details, '{n}', '0')`;
      if (type === 'int8') return 'null';
      return `coalesce(${name}, '') || 'x'`;
    };
    for (const [name, type] of Object.entries(COLUMN_TYPES)) {
      it(name, async () => {
        const value = valueSql(name, type, await bench.organization());
        for (const seq of [1, 50, 1130]) {
          await tamper(
            `create table kept as select * from audit_logs where chain_id = :org and seq = ${seq};
            update audit_logs set "${name}" = ${value} where chain_id = :org and seq = ${seq}`,
          );
          const [found, ...more] = await faults();
          expect(more).to.deep.equal([]);
          // One that is in another chain now, or nowhere, is missing where it was.
          const moved = name === 'org_id' || name === 'seq';
          if (!moved) expect(found).to.deep.equal({ seq, reason: CHANGED });
          else if (seq < 1130) {
            expect(found).to.deep.equal({ seq: seq + 1, reason: `entry ${seq} is missing before it` });
          } else {
            expect(found?.reason).to.match(
              /^entry 1130 is missing at the end|^its sequence number is not valid/,
            );
          }
          await tamper(
            `delete from audit_logs where (chain_id = :org and seq = ${seq}) or id in (select id from kept);
            insert into audit_logs (${COLUMNS}) select ${COLUMNS} from kept; drop table kept`,
          );
        }
      });
    }
  });

  describe('with a chain of its own for each,', () => {
    beforeEach(newChain);

    it('is found if a value becomes null, or a null a value', async () => {
      await tamper(`update audit_logs set user_agent = null where chain_id = :org and seq = 20`);
      expect(await faults()).to.deep.equal([{ seq: 20, reason: CHANGED }]);
      await tamper(`update audit_logs set error_message = '' where chain_id = :org and seq = 7`);
      expect(await faults()).to.deep.equal([{ seq: 7, reason: CHANGED }]);
    });

    it('is found if rows are removed from the head, the middle or the tail', async () => {
      await tamper('delete from audit_logs where chain_id = :org and seq > 1120');
      expect(await faults()).to.deep.equal([
        {
          seq: 1130,
          reason: 'entries 1121 to 1130 are missing at the end: the signed head names the last one',
        },
      ]);
      await tamper('delete from audit_logs where chain_id = :org and seq between 51 and 53');
      expect(await faults()).to.deep.equal([{ seq: 54, reason: 'entries 51 to 53 are missing before it' }]);
      await tamper('delete from audit_logs where chain_id = :org and seq = 1');
      expect(await faults()).to.deep.equal([{ seq: 2, reason: 'entry 1 is missing before it' }]);
      await tamper('update audit_logs set prev_checksum = null where chain_id = :org and seq = 2');
      expect(await faults()).to.deep.equal([{ seq: 2, reason: 'entry 1 is missing before it' }]);
      await tamper('delete from audit_logs where chain_id = :org');
      expect((await faults())[0]?.reason).to.match(/^entries 1 to 1130 are missing at the end/);
    });

    it('is found if rows change places', async () => {
      await tamper(
        `update audit_logs set seq = case seq when 30 then 31 else 30 end where chain_id = :org and seq in (30, 31)`,
      );
      expect(await faults()).to.deep.equal([{ seq: 30, reason: CHANGED }]);
      await tamper(
        `update audit_logs a set seq = b.seq, prev_checksum = b.prev_checksum, checksum = b.checksum from audit_logs b
      where a.chain_id = :org and b.chain_id = :org and a.seq in (11, 12) and b.seq in (11, 12) and a.seq <> b.seq`,
      );
      expect(await faults()).to.deep.equal([{ seq: 11, reason: CHANGED }]);
    });

    it('is found if a row is put in: twice, behind the head, or from another chain', async () => {
      const insert = (set: string, where: string) =>
        tamper(
          `create table one as select * from audit_logs where chain_id = :org and ${where};
        update one set ${set}; insert into audit_logs (${COLUMNS}) select ${COLUMNS} from one; drop table one`,
        );
      const copy = randomUUID();
      await insert(`id = '${copy}'`, 'seq = 40');
      const twice = await faults();
      expect(twice).to.have.length(1);
      expect(twice[0]).to.satisfy(
        ({ seq, reason }: Fault) => (seq === 40 && reason === CHANGED) || /same sequence number/.test(reason),
      );
      await tamper(`delete from audit_logs where id = '${copy}'`);
      expect(await faults()).to.deep.equal([]);
      const [last] = await withEntries((all) => all.slice(-1));
      const [forged] = seal([{ ...last!, id: randomUUID() }], last!);
      await insert(
        `id = '${forged!.id}', seq = 1131, checksum = '${forged!.checksum}', prev_checksum = '${forged!.prevChecksum}'`,
        'seq = 1130',
      );
      expect(await faults()).to.deep.equal([{ seq: 1131, reason: 'it comes after the signed head' }]);
      await tamper('update audit_logs set seq = 0 where chain_id = :org and seq = 1131');
      expect(await faults()).to.deep.equal([{ seq: 0, reason: 'its sequence number is not valid' }]);
    });

    async function withEntries(choose: (all: SealedEntry[]) => SealedEntry[]): Promise<SealedEntry[]> {
      const all: SealedEntry[] = [];
      await withSystem(bench.db, 'test', async (tx) => {
        await readConsistently(tx);
        await readEntries(tx, orgId, (entry) => void all.push(entry));
      });
      return choose(all);
    }

    /** Changes an entry and computes the chain anew from there, as one who has read our code would. */
    async function recompute(from: number): Promise<SealedEntry[]> {
      const all = await withEntries((every) => every);
      const rest = all.slice(from - 1).map((entry, i) => (i === 0 ? { ...entry, action: 'forged' } : entry));
      const forged = seal(rest, all[from - 2] ?? { seq: 0, checksum: null });
      await bench.owner(
        `update audit_logs l set action = f.action, checksum = f.checksum, prev_checksum = f."prevChecksum"
      from jsonb_to_recordset($1::jsonb) as f (seq bigint, action text, checksum text, "prevChecksum" text)
      where l.chain_id = $2 and l.seq = f.seq`,
        [JSON.stringify(forged), orgId],
      );
      return forged;
    }
    const recomputeHead = () =>
      tamper(
        `update audit_chain_heads h set checksum = l.checksum from audit_logs l
      where h.chain_id = :org and l.chain_id = :org and l.seq = h.seq`,
      );

    it('is found if one entry is changed together with its checksum', async () => {
      const all = await withEntries((every) => every);
      const [forged] = seal([{ ...all[59]!, action: 'forged' }], all[58]!);
      await tamper(
        `update audit_logs set action = 'forged', checksum = '${forged!.checksum}' where chain_id = :org and seq = 60`,
      );
      expect(await faults()).to.deep.equal([{ seq: 61, reason: 'it does not link to the previous entry' }]);
      await recompute(60);
      expect((await faults())[0]?.reason).to.match(/^entries 11 to 1100 are rewritten: checkpoint 2/);
    });

    it('is found if the whole chain is computed anew, at the first entry that was signed', async () => {
      await recompute(1);
      await recomputeHead();
      expect(await faults()).to.deep.equal([
        {
          seq: 10,
          reason: 'entries 1 to 10 are rewritten: checkpoint 1 has another checksum for the last one',
        },
      ]);
      await tamper(
        `update audit_checkpoints c set checksum = l.checksum from audit_logs l
      where c.chain_id = :org and l.chain_id = :org and l.seq = c.seq`,
      );
      expect(await faults()).to.deep.equal([{ seq: 10, reason: 'checkpoint 1: its signature is not valid' }]);
      await tamper('delete from audit_checkpoints where chain_id = :org');
      expect((await faults())[0]?.reason).to.match(/^the signed head: (its signature is not valid)/);
    });

    it('is found if only what no checkpoint has signed yet is computed anew', async () => {
      await recompute(1125);
      expect(await faults()).to.deep.equal([
        {
          seq: 1130,
          reason: 'entries 1101 to 1130 are rewritten: the signed head has another checksum for the last one',
        },
      ]);
      await recomputeHead();
      expect(await faults()).to.deep.equal([
        { seq: 1130, reason: 'the signed head: its signature is not valid' },
      ]);
    });

    it('is found if it is signed with a key that a person put there', async () => {
      const pair = newKeyPair();
      const keyId = randomUUID();
      await tamper('update audit_signing_keys set retired_at = now()');
      await bench.owner(
        `insert into audit_signing_keys (id, public_key, sealed_private_key)
      select $1, $2, sealed_private_key from audit_signing_keys limit 1`,
        [keyId, pair.publicKey],
      );
      await recompute(1);
      await recomputeHead();
      const head = await withSystem(bench.db, 'test', (tx) => readHead(tx, orgId));
      const forged = signCheckpoint(
        { ...withoutSignature(head!), number: 1, previous: null },
        { keyId, privateKey: createPrivateKey(pair.privateKey) },
      );
      await tamper(
        `delete from audit_checkpoints where chain_id = :org; update audit_chain_heads set number = 1, previous = null,
      key_id = '${keyId}', signature = '${forged.signature}' where chain_id = :org`,
      );
      const report = await checkStored(bench.db, { own: bench.keys }, { only: orgId });
      expect(report.foreignKeys).to.deep.equal([keyId]);
      expect(report.faults[0]?.reason).to.match(/signed with the key .* which is not trusted/);
      // A bundle brings its keys; who checks it must have them from elsewhere.
      expect(await offline()).to.deep.equal([]);
      const reader = new BundleReader({ keys: report.keys });
      await exportBundle(bench.db, orgId, (line) => reader.line(line));
      expect(reader.end().fault?.reason).to.match(/not trusted/);
      await tamper(
        `delete from audit_chain_heads where key_id = '${keyId}'; delete from audit_signing_keys where id = '${keyId}';
      update audit_signing_keys set retired_at = null; delete from audit_logs where chain_id = :org`,
      );
    });

    it('is found if checkpoints or the head are changed, moved, taken away or of another chain', async () => {
      const restore = async () => {
        await tamper(
          `delete from audit_checkpoints; insert into audit_checkpoints select * from kept_checkpoints;
        delete from audit_chain_heads; insert into audit_chain_heads select * from kept_heads`,
        );
      };
      const other = await bench.organization();
      await bench.add(5, { orgId: other });
      await bench.sealer.flush();
      await tamper(
        `drop table if exists kept_checkpoints, kept_heads;
      create table kept_checkpoints as select * from audit_checkpoints; create table kept_heads as select * from audit_chain_heads`,
      );
      const cases: [string, RegExp][] = [
        [
          `update audit_checkpoints set seq = 11 where chain_id = :org and number = 1`,
          /signature is not valid/,
        ],
        [
          `update audit_checkpoints set at = at + interval '1 day' where chain_id = :org`,
          /signature is not valid/,
        ],
        [
          `update audit_checkpoints set kind = 'cut' where chain_id = :org and number = 2`,
          /signature is not valid/,
        ],
        [
          `delete from audit_checkpoints where chain_id = :org and number = 1`,
          /checkpoint before it is missing/,
        ],
        [
          `delete from audit_checkpoints where chain_id = :org and number = 2`,
          /checkpoint before it is missing/,
        ],
        [`delete from audit_checkpoints where chain_id = :org`, /checkpoint before it is missing/],
        [`delete from audit_chain_heads where chain_id = :org`, /signed head of the chain is missing/],
        [
          `update audit_chain_heads h set seq = o.seq, checksum = o.checksum, number = o.number, previous = o.previous,
          at = o.at, signature = o.signature from audit_chain_heads o where h.chain_id = :org and o.chain_id = '${other}'`,
          /signature is not valid/,
        ],
      ];
      for (const [sql, reason] of cases) {
        await tamper(sql);
        expect((await faults())[0]?.reason, sql).to.match(reason);
        await restore();
      }
      expect(await faults()).to.deep.equal([]);
    });

    it('by winding a chain back to an earlier checkpoint is found with a later bundle that was kept', async () => {
      await tamper(
        `delete from audit_logs where chain_id = :org and seq > 1100;
      update audit_chain_heads h set seq = c.seq, checksum = c.checksum, number = c.number, previous = c.previous,
        at = c.at, signature = c.signature from audit_checkpoints c
      where h.chain_id = :org and c.chain_id = :org and c.number = 2`,
      );
      expect(await faults()).to.deep.equal([]);
      expect(await faults(headBefore)).to.deep.equal([
        {
          seq: 1130,
          reason: 'entries 1101 to 1130 are missing at the end: the earlier copy names the last one',
        },
      ]);
      await tamper(
        'delete from audit_logs where chain_id = :org; delete from audit_checkpoints where chain_id = :org; delete from audit_chain_heads where chain_id = :org',
      );
      expect((await online(headBefore))[0]?.reason).to.equal('the signed head of the chain is missing');
    });
  });
});

function withoutSignature({ signature: _signature, keyId: _keyId, ...rest }: Checkpoint) {
  return rest;
}
