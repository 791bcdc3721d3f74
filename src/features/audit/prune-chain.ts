import { lockChain, oldestEntries } from './audit-retention.queries.ts';
import { clock } from '../../clock.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withAuditAdmin, withSystem, type Tx } from '../../platform/db/transaction.ts';
import { type SealedEntry, type Checkpoint, checkpointHash, signCheckpoint } from './chain.ts';
import { ChainCheck, trustedKeys } from './chain-check.ts';

import type { SigningKey } from '../../platform/secrets/stored-signing-keys.ts';
import type { SigningKeys } from './signing-keys.ts';
import {
  readCheckpointsOf,
  readConsistently,
  readEntries,
  readHead,
  readLastCheckpoint,
} from './stored-chains.queries.ts';
import { keysByTrust } from './stored-check.ts';

/**
 * Removes the oldest entries of a chain (docs/decisions/audit-chain.md). Portions bound the memory, and the steps of a
 * portion bound the time for which the chain is locked.
 */

/** Why entries were not removed, in words for the organization's administrators. */
export class RetentionFailure extends Error {}

interface ChainPoint {
  seq: number;
  checksum: string;
}

/** The oldest entries of a chain, all expired and verified. */
export interface Portion {
  chainId: string;
  first: number;
  /** The points at which the chain may be cut; the last is the end of the portion. */
  steps: ChainPoint[];
  last: ChainPoint;
  /** The latest cut, which the first entry follows. Undefined if nothing was pruned yet. */
  anchor: Checkpoint | undefined;
  /** The newest checkpoint of the chain, which the next one links to. */
  newest: Checkpoint | undefined;
  key: SigningKey;
}

export interface PruneSizes {
  portion: number;
  step: number;
}

/**
 * The next portion of entries older than `before`, or undefined if the oldest entry is not. An entry that must be kept
 * also keeps all entries after it, whatever their time, so that the rest of the chain has no gap.
 */
export async function nextPortion(
  db: Db,
  own: SigningKeys,
  { chainId, before }: { chainId: string; before: Date },
  sizes: PruneSizes,
): Promise<Portion | undefined> {
  return withSystem(db, 'find and verify expired audit entries', async (tx) => {
    await readConsistently(tx);
    const old = await oldestEntries(tx, chainId, before, sizes.portion);
    if (old === undefined) return undefined;
    const head = await readHead(tx, chainId);
    if (head === undefined) throw new RetentionFailure('The signed head of the chain is missing.');
    const until = await nextSigned(tx, chainId, old.through, head);
    const checkpoints = await readCheckpointsOf(tx, chainId, { from: old.first, through: until });
    const { trusted } = await keysByTrust(tx, { own });

    const check = new ChainCheck({ chainId, head, checkpoints, someCheckpoints: true }, trustedKeys(trusted));
    const steps: ChainPoint[] = [];
    let end = 0;
    const onEntry = (entry: SealedEntry) => {
      check.add(entry);
      end = entry.seq;
      const isStep = entry.seq === old.through || (entry.seq - old.first + 1) % sizes.step === 0;
      if (isStep && entry.seq <= old.through) steps.push({ seq: entry.seq, checksum: entry.checksum });
    };
    await readEntries(tx, chainId, onEntry, { from: old.first, through: until });

    const last = steps.at(-1);
    const { fault } = check;
    if (fault !== undefined) throw notIntact(`entry ${fault.seq ?? '?'}: ${fault.reason}`);
    if (end !== until || last?.seq !== old.through) throw notIntact(`entries up to ${until} are missing`);
    const current = await tx('audit_signing_keys').whereNull('retired_at').first('id');
    return {
      chainId,
      first: old.first,
      steps,
      last,
      anchor: checkpoints.findLast(({ kind }) => kind === 'cut'),
      newest: await readLastCheckpoint(tx, chainId),
      key: await own.privateKey(tx, current.id as string),
    };
  });
}

/** Removing entries from a damaged chain would also remove the evidence. */
const notIntact = (what: string) =>
  new RetentionFailure(`The chain is not intact, so no entries are removed until this is resolved: ${what}`);

/**
 * The position of the first signed checkpoint at or after `through`. The verification must extend to it, because entries
 * after the last signature could have been rewritten.
 */
async function nextSigned(tx: Tx, chainId: string, through: number, head: Checkpoint): Promise<number> {
  const kept = await tx('audit_checkpoints')
    .where({ chain_id: chainId, kind: 'head' })
    .where('seq', '>=', through)
    .min<{ seq: string | null }>('seq as seq')
    .first();
  return Math.min(head.seq, kept?.seq == null ? head.seq : Number(kept.seq));
}

/** The signed cut for the last entry to be removed. */
export const cutOf = (
  { chainId, key }: Pick<Portion, 'chainId' | 'key'>,
  point: ChainPoint,
  newest: Checkpoint | undefined,
): Checkpoint =>
  signCheckpoint(
    {
      chainId,
      kind: 'cut',
      number: (newest?.number ?? 0) + 1,
      ...point,
      previous: newest === undefined ? null : checkpointHash(newest),
      at: clock.date().toISOString(),
    },
    key,
  );

export interface Removed {
  entries: number;
  cut: Checkpoint;
}

/**
 * Removes the entries up to `point` in one transaction that holds the lock of the chain. Returns undefined if another
 * server has already removed them.
 */
export async function cutChain(
  session: Db,
  portion: Portion,
  point: ChainPoint,
): Promise<Removed | undefined> {
  const { chainId, key } = portion;
  return withAuditAdmin(session, async (tx) => {
    await lockChain(tx, chainId);
    const row = await tx('audit_logs').where({ chain_id: chainId, seq: point.seq }).first('checksum');
    if (row === undefined) return undefined;
    const head = await readHead(tx, chainId);
    if (row.checksum !== point.checksum || head === undefined) {
      throw notIntact('it changed after it was verified');
    }

    const cut = cutOf(portion, point, await readLastCheckpoint(tx, chainId));
    const { seq, checksum } = head;
    const next = signCheckpoint(
      {
        chainId,
        kind: 'head',
        number: cut.number + 1,
        seq,
        checksum,
        previous: checkpointHash(cut),
        at: cut.at,
      },
      key,
    );
    await tx('audit_checkpoints').insert({ chain_id: chainId, kind: 'cut', seq: cut.seq, ...signed(cut) });
    const entries = await tx('audit_logs').where('chain_id', chainId).where('seq', '<=', cut.seq).delete();
    await tx('audit_logs')
      .where({ chain_id: chainId, seq: cut.seq + 1 })
      .update({ prev_checksum: null });
    await tx('audit_chain_heads')
      .where('chain_id', chainId)
      .update({ seq, ...signed(next) });
    return { entries, cut };
  });
}

const signed = ({ number, checksum, previous, at, keyId, signature }: Checkpoint) => ({
  number,
  checksum,
  previous,
  at,
  key_id: keyId,
  signature,
});
