import { expect } from 'chai';
import fc from 'fast-check';
import { chainsOf } from '../../../../../src/features/database-backup/sql-server.service.ts';
import type { SqlBackupSet } from '../../../../../src/protocol/index.ts';

const guid = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;
/** Beyond what a number of JavaScript can tell apart. */
const lsn = (number: number) => (10n ** 24n + BigInt(number)).toString();

const set = (
  id: number,
  backupType: SqlBackupSet['backupType'],
  given: Partial<SqlBackupSet> = {},
): SqlBackupSet => ({
  id,
  uuid: guid(id),
  backupType,
  firstLsn: lsn(id),
  lastLsn: lsn(id),
  isCopyOnly: false,
  isDamaged: false,
  fork: guid(900),
  differentialBase: null,
  finishedAt: `2026-11-22T00:00:${String(id).padStart(2, '0')}`,
  sizeBytes: 1,
  file: String.raw`D:\Backups\muster-1.bak`,
  ...given,
});
const log = (id: number, from: number, to: number, given: Partial<SqlBackupSet> = {}) =>
  set(id, 'log', { firstLsn: lsn(from), lastLsn: lsn(to), ...given });
const shown = (sets: readonly SqlBackupSet[]) =>
  chainsOf(sets).chains.map(({ full, differentials, logs }) => ({
    full: full.id,
    differentials: differentials.map(({ id }) => id),
    logs: logs.map(({ id }) => id),
  }));
const codes = (sets: readonly SqlBackupSet[]) => chainsOf(sets).warnings.map(({ code }) => code);

describe('what can be restored of a database of SQL Server', () => {
  const full = set(1, 'full', { lastLsn: lsn(10) });

  it('shows the twenty newest chains, and says how many there are', () => {
    const sets = Array.from({ length: 23 }, (_, n) => set(n + 1, 'full'));
    const { chains, chainCount } = chainsOf(sets);
    expect([chains.length, chainCount]).to.deep.equal([20, 23]);
  });

  it('is a full backup, its differential ones, and the logs that join', () => {
    const sets = [
      full,
      log(2, 5, 12),
      set(3, 'differential', { differentialBase: guid(1).toUpperCase(), lastLsn: lsn(15) }),
      log(4, 12, 20),
      log(5, 20, 30),
      set(6, 'differential', { differentialBase: guid(99) }),
    ];
    expect(shown(sets)).to.deep.equal([{ full: 1, differentials: [3], logs: [2, 4, 5] }]);
    expect(codes(sets)).to.deep.equal([]);
    expect(chainsOf(sets).chains[0]?.recoverableTo).to.equal('2026-11-22T00:00:05');
  });

  it('ends if a log is missing, however close the positions are', () => {
    const sets = [full, log(2, 10, 20), log(3, 21, 30)];
    expect(shown(sets)[0]?.logs).to.deep.equal([2]);
    expect(codes(sets)).to.deep.equal(['LOG_GAP']);
  });

  it('goes on behind a missing log if a differential backup reaches beyond it', () => {
    const differential = set(5, 'differential', { differentialBase: guid(1), lastLsn: lsn(35) });
    const sets = [full, log(2, 10, 20), log(3, 30, 34), log(4, 34, 40), differential, log(6, 40, 50)];
    expect(shown(sets)[0]?.logs).to.deep.equal([2, 4, 6]);
    expect(codes(sets)).to.deep.equal([]);
    expect(chainsOf(sets).chains[0]?.recoverableTo).to.equal('2026-11-22T00:00:06');
    // Nobody can restore it without its file.
    const lost = sets.map((each) => (each === differential ? { ...each, file: null } : each));
    expect([shown(lost)[0]?.logs, codes(lost)]).to.deep.equal([[2], ['LOG_GAP']]);
  });

  it('misses no log that a longer one contains', () => {
    const sets = [full, log(3, 20, 30), log(4, 10, 40, { isCopyOnly: true }), log(5, 40, 50)];
    expect(shown(sets)[0]?.logs).to.deep.equal([4, 5]);
    expect(codes(sets)).to.deep.equal([]);
  });

  it('leaves out logs of another fork, and those that end before the full backup', () => {
    const sets = [full, log(2, 1, 10), log(3, 10, 20, { fork: guid(901) }), log(4, 10, 18)];
    expect(shown(sets)[0]?.logs).to.deep.equal([4]);
  });

  it('is broken by a full backup of another program, unless that is a copy', () => {
    const foreign = { file: String.raw`E:\other.bak` };
    expect(codes([full, set(2, 'full', foreign)])).to.deep.equal(['FOREIGN_FULL']);
    expect(codes([full, set(2, 'full', { ...foreign, isCopyOnly: true })])).to.deep.equal([]);
    const copy = set(2, 'full', { isCopyOnly: true });
    expect(
      shown([copy, set(3, 'differential', { differentialBase: guid(2) })])[0]?.differentials,
    ).to.deep.equal([]);
    expect(codes([copy])).to.deep.equal(['NO_FULL']);
  });

  it('offers nothing that is damaged', () => {
    const sets = [full, log(2, 5, 20, { isDamaged: true }), log(3, 20, 30)];
    expect(shown(sets)[0]?.logs).to.deep.equal([]);
    expect(codes(sets)).to.deep.equal(['LOG_GAP', 'DAMAGED']);
  });

  it('joins without gaps, whatever the history holds', () => {
    const anySet = fc.record({
      id: fc.nat(50),
      backupType: fc.constantFrom('full', 'differential', 'log'),
      first: fc.nat(30),
      length: fc.nat(5),
      isCopyOnly: fc.boolean(),
      isDamaged: fc.boolean(),
      fork: fc.constantFrom(guid(1), guid(2), null),
      base: fc.constantFrom(guid(1), guid(2), null),
    });
    fc.assert(
      fc.property(fc.array(anySet, { maxLength: 60 }), (found) => {
        const sets = found.map(({ id, backupType, first, length, base, ...rest }) =>
          set(id, backupType, {
            ...rest,
            differentialBase: base,
            firstLsn: lsn(first),
            lastLsn: lsn(first + length),
          }),
        );
        const { chains } = chainsOf(sets);
        expect(chains.length).to.be.at.most(20);
        for (const chain of chains) {
          let reached = BigInt(chain.full.lastLsn);
          for (const each of chain.logs) {
            const ends = [reached, ...chain.differentials.map(({ lastLsn }) => BigInt(lastLsn))];
            expect(reached < BigInt(each.lastLsn)).to.equal(true);
            expect(ends.some((end) => BigInt(each.firstLsn) <= end && end < BigInt(each.lastLsn))).to.equal(
              true,
            );
            expect([each.isDamaged, each.fork]).to.deep.equal([false, chain.full.fork]);
            reached = BigInt(each.lastLsn);
          }
        }
      }),
    );
  });
});
