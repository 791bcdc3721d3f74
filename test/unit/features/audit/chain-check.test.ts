import { expect } from 'chai';
import { createPrivateKey, createPublicKey, randomUUID } from 'node:crypto';
import {
  CHAIN_START,
  type ChainEnd,
  checksumOf,
  seal,
  type SealedEntry,
  type UnsealedEntry,
  type Checkpoint,
  checkpointHash,
  signCheckpoint,
  segmentOf,
} from '../../../../src/features/audit/chain.ts';
import { type ChainClaims, ChainCheck, type Fault } from '../../../../src/features/audit/chain-check.ts';
import { newKeyPair } from '../../../../src/platform/secrets/stored-signing-keys.ts';

const CHAIN = randomUUID();
const OTHER_CHAIN = randomUUID();
const AT = '2026-01-31T08:00:00.000Z';

const pair = newKeyPair();
const KEY = { keyId: randomUUID(), privateKey: createPrivateKey(pair.privateKey) };
const KEYS = new Map([[KEY.keyId, createPublicKey(pair.publicKey)]]);

const unsealed = (n: number, orgId = CHAIN): UnsealedEntry => ({
  action: 'site.create',
  actorEmail: null,
  actorId: 'actor',
  actorType: 'user',
  details: { n },
  errorMessage: null,
  id: `entry ${n}`,
  ipAddress: null,
  orgId,
  partnerId: null,
  resourceId: null,
  resourceName: null,
  resourceType: 'site',
  result: 'success',
  timestamp: AT,
  userAgent: null,
});
const ENTRIES = seal(
  Array.from({ length: 10 }, (_, n) => unsealed(n + 1)),
  CHAIN_START,
);

/** An entry whose checksum is computed anew, as an attacker with all rights on the database would do it. */
const resealed = (entry: SealedEntry): SealedEntry => ({ ...entry, checksum: checksumOf(entry) });

type Statement = Omit<Checkpoint, 'signature' | 'keyId' | 'previous'> & { previous: Checkpoint | undefined };
function signed({ previous, ...more }: Partial<Statement> & { seq: number }, key = KEY): Checkpoint {
  return signCheckpoint(
    {
      chainId: CHAIN,
      kind: 'head',
      number: (previous?.number ?? 0) + 1,
      checksum: ENTRIES[more.seq - 1]?.checksum ?? '',
      previous: previous === undefined ? null : checkpointHash(previous),
      at: AT,
      ...more,
    },
    key,
  );
}
const FIRST = signed({ seq: 3 });
const SECOND = signed({ seq: 6, previous: FIRST });
const HEAD = signed({ seq: 10, previous: SECOND });
const CLAIMS: ChainClaims = { chainId: CHAIN, checkpoints: [FIRST, SECOND], head: HEAD };

function faultOf(entries: readonly SealedEntry[], claims: Partial<ChainClaims> = {}): Fault | undefined {
  const check = new ChainCheck({ ...CLAIMS, ...claims }, KEYS);
  for (const entry of entries) check.add(entry);
  return check.end();
}
/** The position and the reason. */
const found = (entries: readonly SealedEntry[], claims: Partial<ChainClaims> = {}) => {
  const fault = faultOf(entries, claims);
  return fault === undefined ? 'none' : `${fault.seq}: ${fault.reason}`;
};
const withEntry = (seq: number, change: (entry: SealedEntry) => SealedEntry) =>
  ENTRIES.map((entry) => (entry.seq === seq ? change(entry) : entry));
const without = (...seqs: number[]) => ENTRIES.filter(({ seq }) => !seqs.includes(seq));

describe('the check of an audit chain', () => {
  it('finds no fault in what was sealed and signed', () => {
    expect(found(ENTRIES)).to.equal('none');
    expect(found([], { head: undefined, checkpoints: [] })).to.equal(
      'null: the signed head of the chain is missing',
    );
  });

  it('names the chain, the position and the id of the first fault, and looks no further', () => {
    const check = new ChainCheck(CLAIMS, KEYS);
    const changed = withEntry(4, (entry) => ({ ...entry, result: 'failure' }));
    for (const entry of changed) check.add(entry);
    const fault = {
      chainId: CHAIN,
      seq: 4,
      id: 'entry 4',
      reason: 'its content does not match its checksum',
    };
    expect([check.fault, check.end(), check.count]).to.deep.equal([fault, fault, 4]);
  });

  describe('finds entries', () => {
    it('that are missing, before another one and at the end', () => {
      expect(found(without(2))).to.equal('3: entry 2 is missing before it');
      expect(found(without(1, 2))).to.equal('3: entries 1 to 2 are missing before it');
      expect(found(without(10))).to.equal(
        '10: entry 10 is missing at the end: the signed head names the last one',
      );
      expect(found(without(9, 10))).to.match(/^10: entries 9 to 10 are missing at the end/);
      expect(found([])).to.match(/^10: entries 1 to 10 are missing at the end/);
    });

    it('that are there twice, or have no valid number', () => {
      expect(found(ENTRIES.flatMap((entry) => (entry.seq === 5 ? [entry, entry] : [entry])))).to.equal(
        '5: another entry has the same sequence number',
      );
      for (const seq of [0, -1, 1.5, Number.NaN, 2 ** 53]) {
        expect(found(withEntry(1, (entry) => ({ ...entry, seq })))).to.match(
          /: its sequence number is not valid$/,
        );
      }
    });

    it('of another chain', () => {
      const foreign = withEntry(5, (entry) => resealed({ ...entry, orgId: OTHER_CHAIN }));
      expect(found(foreign)).to.equal('5: it belongs to another chain');
    });

    it('that were changed together with their checksum', () => {
      expect(found(withEntry(5, (entry) => resealed({ ...entry, result: 'failure' })))).to.equal(
        '6: it does not link to the previous entry',
      );
      expect(found(withEntry(5, (entry) => resealed({ ...entry, prevChecksum: null })))).to.equal(
        '5: it does not link to the previous entry',
      );
    });

    it('that come after the signed head', () => {
      const [more] = seal([unsealed(11)], ENTRIES.at(-1) as ChainEnd);
      expect(found([...ENTRIES, more!])).to.equal('11: it comes after the signed head');
    });

    it('of a chain that was computed anew, from the last signature that still holds to the next one', () => {
      const anew = (from: number) => {
        const kept = ENTRIES.slice(0, from - 1);
        const later = ENTRIES.slice(from - 1).map(({ seq }) => unsealed(seq + 100));
        return [...kept, ...seal(later, kept.at(-1) ?? CHAIN_START)];
      };
      const other = 'has another checksum for the last one';
      expect(found(anew(1))).to.equal(`3: entries 1 to 3 are rewritten: checkpoint 1 ${other}`);
      expect(found(anew(5))).to.equal(`6: entries 4 to 6 are rewritten: checkpoint 2 ${other}`);
      expect(found(anew(10))).to.equal(`10: entries 7 to 10 are rewritten: the signed head ${other}`);
    });
  });

  describe('finds checkpoints', () => {
    it('of another chain, by which a chain could be emptied', () => {
      const emptiedBy = (chainId: string) => {
        const cut = signed({ chainId, kind: 'cut', seq: 10 });
        return found([], { checkpoints: [cut], head: signed({ chainId, seq: 10, previous: cut }) });
      };
      expect(emptiedBy(CHAIN)).to.equal('none');
      expect(emptiedBy(OTHER_CHAIN)).to.equal('10: checkpoint 1: it belongs to another chain');
    });

    it('that a key has signed which is not trusted, or none at all', () => {
      const own = newKeyPair();
      const foreign = { keyId: randomUUID(), privateKey: createPrivateKey(own.privateKey) };
      expect(found(ENTRIES, { head: signed({ seq: 10, previous: SECOND }, foreign) })).to.equal(
        `10: the signed head: it is signed with the key ${foreign.keyId}, which is not trusted`,
      );
      expect(
        found(ENTRIES, { checkpoints: [{ ...FIRST, at: '2026-02-01T08:00:00.000Z' }, SECOND] }),
      ).to.equal('3: checkpoint 1: its signature is not valid');
    });

    it('that are missing, or do not follow each other', () => {
      expect(found(ENTRIES, { checkpoints: [SECOND] })).to.equal(
        '6: checkpoint 2: the checkpoint before it is missing',
      );
      expect(found(ENTRIES, { checkpoints: [FIRST] })).to.equal(
        '10: the signed head: the checkpoint before it is missing',
      );
      const unlinked = signed({ seq: 6, number: 2 });
      expect(found(ENTRIES, { checkpoints: [FIRST, unlinked] })).to.equal(
        '6: checkpoint 2: it does not link to the previous checkpoint',
      );
      expect(found(ENTRIES, { head: signed({ seq: 10, number: 3 }) })).to.equal(
        '10: the signed head: it does not link to the previous checkpoint',
      );
    });

    it('except if only some are asked for; each of these is still signed', () => {
      expect(found(ENTRIES, { checkpoints: [SECOND], someCheckpoints: true })).to.equal('none');
      const changed = { ...SECOND, at: '2026-02-01T08:00:00.000Z' };
      expect(found(ENTRIES, { checkpoints: [changed], someCheckpoints: true })).to.equal(
        '6: checkpoint 2: its signature is not valid',
      );
    });

    it('and takes a head that was kept as a checkpoint for one and the same', () => {
      expect(found(ENTRIES, { checkpoints: [FIRST, SECOND, HEAD] })).to.equal('none');
      expect(found(ENTRIES.slice(0, 3), { checkpoints: [FIRST], head: FIRST })).to.equal('none');
    });
  });

  describe('of which the oldest entries were pruned', () => {
    const CUT = signed({ kind: 'cut', seq: 6, previous: FIRST });
    const claims = { checkpoints: [FIRST, CUT], head: signed({ seq: 10, previous: CUT }) };
    /** Pruning clears the link of the first entry that remains. */
    const REMAINING = ENTRIES.slice(6).map((entry) =>
      entry.seq === 7 ? { ...entry, prevChecksum: null } : entry,
    );

    it('goes on from the newest cut', () => {
      expect(found(REMAINING, claims)).to.equal('none');
      const twice = [signed({ kind: 'cut', seq: 3 })];
      twice.push(signed({ kind: 'cut', seq: 6, previous: twice[0] }));
      expect(
        found(REMAINING, { checkpoints: twice, head: signed({ seq: 10, previous: twice[1] }) }),
      ).to.equal('none');
    });

    it('finds entries that were pruned already, or that are missing behind the cut', () => {
      expect(found(ENTRIES, claims)).to.equal(
        '1: it was already pruned, or was inserted before the first entry',
      );
      expect(found(REMAINING.slice(1), claims)).to.equal('8: entry 7 is missing before it');
    });

    it('finds a first entry that does not follow the cut', () => {
      const other = withEntry(7, (entry) => resealed({ ...entry, prevChecksum: 'f'.repeat(64) })).slice(6);
      expect(found(other, claims)).to.equal('7: it does not link to the previous entry');
      const changed = REMAINING.map((entry) => (entry.seq === 7 ? { ...entry, result: 'failure' } : entry));
      expect(found(changed, claims)).to.equal('7: its content does not match its checksum');
    });

    it('lets no later entry lack its link', () => {
      const unlinked = REMAINING.map((entry) => (entry.seq === 8 ? { ...entry, prevChecksum: null } : entry));
      expect(found(unlinked, claims)).to.equal('8: its content does not match its checksum');
    });

    it('finds a cut that is not signed, before any entry', () => {
      const forged = { ...CUT, checksum: 'f'.repeat(64) };
      expect(found([], { ...claims, checkpoints: [FIRST, forged] })).to.equal(
        '6: checkpoint 2: its signature is not valid',
      );
    });
  });

  describe('against an earlier copy', () => {
    const known = [{ seq: 8, checksum: ENTRIES[7]?.checksum ?? '' }];

    it('finds no fault if the copy still holds', () => {
      expect(found(ENTRIES, { known })).to.equal('none');
    });

    it('finds what was wound back or computed anew since, although it is signed', () => {
      expect(found(ENTRIES.slice(0, 6), { checkpoints: [FIRST], head: SECOND, known })).to.equal(
        '8: entries 7 to 8 are missing at the end: the earlier copy names the last one',
      );
      expect(found(ENTRIES, { known: [{ seq: 8, checksum: 'f'.repeat(64) }] })).to.equal(
        '8: entries 7 to 8 are rewritten: the earlier copy has another checksum for the last one',
      );
    });
  });

  describe('by segments', () => {
    const segment = (from: number, to: number) => {
      const some = segmentOf(ENTRIES.slice(from - 1, to));
      if (some === undefined) throw new Error('The entries form no segment.');
      return some;
    };

    it('finds the same as entry by entry', () => {
      const check = new ChainCheck(CLAIMS, KEYS);
      expect([check.addSegment(segment(1, 4)), check.addSegment(segment(5, 10))]).to.deep.equal([true, true]);
      expect([check.end(), check.count]).to.deep.equal([undefined, 10]);
    });

    it('takes none that has another checksum than what is signed, or whose signature is not valid', () => {
      for (const checkpoint of [
        signed({ seq: 3, checksum: 'f'.repeat(64) }),
        { ...FIRST, at: '2026-02-01T08:00:00.000Z' },
      ]) {
        const check = new ChainCheck({ ...CLAIMS, checkpoints: [checkpoint], someCheckpoints: true }, KEYS);
        expect([check.addSegment(segment(1, 4)), check.count]).to.deep.equal([false, 0]);
        expect(check.addSegment(segment(1, 2)), 'before it').to.equal(true);
        for (const entry of ENTRIES.slice(2)) check.add(entry);
        expect(check.end()?.seq).to.equal(3);
      }
    });

    it('takes none of another chain, and none that links to something else', () => {
      const foreign = seal(
        [1, 2].map((n) => unsealed(n, OTHER_CHAIN)),
        CHAIN_START,
      );
      expect(new ChainCheck(CLAIMS, KEYS).addSegment(segmentOf(foreign)!)).to.equal(false);
      const unlinked = seal([unsealed(1), unsealed(2)], { seq: 0, checksum: 'f'.repeat(64) });
      expect(new ChainCheck(CLAIMS, KEYS).addSegment(segmentOf(unlinked)!)).to.equal(false);
    });

    it('says from which signature on what follows was rewritten', () => {
      const check = new ChainCheck({ ...CLAIMS, checkpoints: [FIRST], someCheckpoints: true }, KEYS);
      expect(check.addSegment(segment(1, 5))).to.equal(true);
      for (const entry of seal(
        [6, 7, 8, 9, 10].map((n) => unsealed(n + 100)),
        ENTRIES[4] as ChainEnd,
      )) {
        check.add(entry);
      }
      expect(check.end()?.reason).to.match(/^entries 4 to 10 are rewritten/);
    });

    it('go on behind every signature that they have passed', () => {
      const check = new ChainCheck(CLAIMS, KEYS);
      for (const [from, to] of [
        [1, 3],
        [4, 6],
        [7, 8],
        [9, 10],
      ] as const) {
        expect(check.addSegment(segment(from, to)), `from ${from}`).to.equal(true);
      }
      expect([check.end(), check.count]).to.deep.equal([undefined, 10]);
    });

    it('takes none that leaves a gap, although it links to the last entry', () => {
      const check = new ChainCheck({ ...CLAIMS, checkpoints: [], someCheckpoints: true }, KEYS);
      expect(check.addSegment(segment(1, 3))).to.equal(true);
      const later = seal([unsealed(5), unsealed(6)], { seq: 4, checksum: ENTRIES[2]?.checksum ?? '' });
      expect(check.addSegment(segmentOf(later)!)).to.equal(false);
    });

    it('let no entry after them lack its link', () => {
      const check = new ChainCheck(CLAIMS, KEYS);
      expect(check.addSegment(segment(1, 4))).to.equal(true);
      check.add({ ...ENTRIES[4]!, prevChecksum: null });
      expect(check.end()).to.deep.include({ seq: 5, reason: 'its content does not match its checksum' });
    });

    it('takes all without a look once a fault was found', () => {
      const check = new ChainCheck(CLAIMS, KEYS);
      check.add(ENTRIES[4]!);
      expect([check.addSegment(segment(5, 6)), check.count, check.end()?.seq]).to.deep.equal([true, 1, 5]);
    });

    it('are made only of entries that follow each other in one chain', () => {
      expect(segmentOf([])).to.equal(undefined);
      expect(segmentOf(without(2))).to.equal(undefined);
      expect(segmentOf([ENTRIES[0], undefined])).to.equal(undefined);
      expect(segmentOf(withEntry(2, (entry) => ({ ...entry, result: 'failure' })))).to.equal(undefined);
      expect(segmentOf(withEntry(2, (entry) => resealed({ ...entry, prevChecksum: null })))).to.equal(
        undefined,
      );
      expect(segmentOf(withEntry(2, (entry) => resealed({ ...entry, orgId: OTHER_CHAIN })))).to.equal(
        undefined,
      );
      const [first, second] = [ENTRIES[0]!, ENTRIES[1]!];
      expect(segmentOf([first, resealed({ ...second, orgId: OTHER_CHAIN })])).to.equal(undefined);
      expect(segmentOf([first, resealed({ ...second, seq: 3 })])).to.equal(undefined);
      expect(segmentOf(ENTRIES.slice(0, 2))).to.deep.equal({
        first: ENTRIES[0],
        count: 2,
        checksums: `${ENTRIES[0]?.checksum}${ENTRIES[1]?.checksum}`,
      });
    });
  });
});
