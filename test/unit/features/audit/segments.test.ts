import { expect } from 'chai';
import { createPrivateKey, createPublicKey } from 'node:crypto';
import {
  CHAIN_START,
  seal,
  type UnsealedEntry,
  segmentOf,
  signCheckpoint,
} from '../../../../src/features/audit/chain.ts';
import { ChainCheck } from '../../../../src/features/audit/chain-check.ts';
import { newKeyPair } from '../../../../src/platform/secrets/stored-signing-keys.ts';

const CHAIN = '018f0000-0000-7000-8000-000000000001';
const unsealed = (n: number): UnsealedEntry => ({
  action: 'site.create',
  actorEmail: null,
  actorId: 'actor',
  actorType: 'user',
  details: { n },
  errorMessage: null,
  id: `018f0000-0000-7000-8000-${String(n).padStart(12, '0')}`,
  ipAddress: null,
  orgId: CHAIN,
  partnerId: null,
  resourceId: null,
  resourceName: null,
  resourceType: 'site',
  result: 'success',
  timestamp: '2026-01-31T08:00:00.000Z',
  userAgent: null,
});

describe('a segment of an audit chain', () => {
  const pair = newKeyPair();
  const key = { keyId: CHAIN, privateKey: createPrivateKey(pair.privateKey) };
  const keys = new Map([[CHAIN, createPublicKey(pair.publicKey)]]);
  const entries = seal([1, 2, 3, 4].map(unsealed), CHAIN_START);
  const checkAgainst = (headSeq: number) =>
    new ChainCheck(
      {
        chainId: CHAIN,
        checkpoints: [],
        head: signCheckpoint(
          {
            chainId: CHAIN,
            kind: 'head',
            number: 1,
            seq: headSeq,
            checksum: entries[headSeq - 1]?.checksum ?? '',
            previous: null,
            at: '2026-01-31T08:00:00.000Z',
          },
          key,
        ),
      },
      keys,
    );
  const segment = (from: number, to: number) => {
    const found = segmentOf(entries.slice(from, to));
    if (found === undefined) throw new Error('The entries form no segment.');
    return found;
  };

  it('is taken up to the signed head', () => {
    const check = checkAgainst(4);
    expect([check.addSegment(segment(0, 2)), check.addSegment(segment(2, 4))]).to.deep.equal([true, true]);
    expect([check.end(), check.count]).to.deep.equal([undefined, 4]);
  });

  it('is not taken beyond the signed head, and its entries are then found to be too many', () => {
    const check = checkAgainst(2);
    expect(check.addSegment(segment(0, 4))).to.equal(false);
    expect(check.count).to.equal(0);
    for (const entry of entries) check.add(entry);
    expect(check.end()).to.deep.include({ seq: 3, reason: 'it comes after the signed head' });
    const later = checkAgainst(2);
    expect([later.addSegment(segment(0, 2)), later.addSegment(segment(2, 4))]).to.deep.equal([true, false]);
  });

  it('is not taken out of order, or twice', () => {
    const check = checkAgainst(4);
    expect(check.addSegment(segment(2, 4))).to.equal(false);
    expect(check.addSegment(segment(0, 2))).to.equal(true);
    expect(check.addSegment(segment(0, 2))).to.equal(false);
    expect(check.end()?.reason).to.match(/^entries 3 to 4 are missing at the end/);
  });
});
