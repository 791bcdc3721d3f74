import { clock } from '../../clock.ts';
import type { AgentCredentials, RefusedVerdict, UpgradableMachine, Verdict } from '../../hub/ports.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem, type Tx } from '../../platform/db/transaction.ts';
import { batchLoader } from '../../platform/batch-loader.ts';
import { isWellFormed, tokenHash, newToken } from '../../platform/secrets/tokens.ts';
import {
  type Standing,
  type CredentialRow,
  findCredentials,
  findLapsed,
  confirmToken,
  stageToken,
} from './agent-credential.queries.ts';
import { raw } from 'objection';
import { AppError } from '../../platform/errors.ts';
import { Device, AgentCredential } from './device.model.ts';

const CACHED_FOR_MS = 30_000;

const CACHE_SIZE = 50_000;

/** A token is looked up again when others were revoked meanwhile, because it may be one of them. */
const MAX_LOOKUPS = 3;

/** Caches the verdicts on tokens for a while, so that a fleet that reconnects does not query the database twice. */
export class CachedAgentCredentials implements AgentCredentials {
  readonly #db: Db;
  readonly #isInTouch: () => boolean;
  readonly #cache = new Map<string, { verdict: Verdict; until: number }>();
  readonly #find: (hash: string) => Promise<CredentialRow | undefined>;
  #changes = 0;

  /** @param isInTouch  whether revocations on other servers reach this one at this moment */
  constructor(db: Db, isInTouch: () => boolean = () => true) {
    this.#db = db;
    this.#isInTouch = isInTouch;
    // Devices that reconnect at the same moment share one query.
    this.#find = batchLoader(
      (hashes) => withSystem(db, 'find whose agent tokens these are', (tx) => findCredentials(tx, hashes)),
      { withinMs: 5, atMost: 500 },
    );
  }

  async verify(token: string): Promise<Verdict> {
    if (!isWellFormed('agent', token)) return { ok: false, code: 'UNAUTHENTICATED' };
    const hash = tokenHash(token);
    const known = this.#cache.get(hash);
    if (known !== undefined && known.until > clock.monotonic() && this.#isInTouch()) return known.verdict;
    for (let tries = 1; ; tries += 1) {
      const changesBefore = this.#changes;
      const { verdict, isFirstUse } = await this.#lookUp(hash);
      // Only valid tokens are cached: a stream of invalid ones must not push them out.
      if (!verdict.ok) return verdict;
      // The row may have been read before its token was revoked or replaced: it is read again, and not cached.
      const isCurrent = changesBefore === this.#changes;
      if (isFirstUse) {
        this.forget([verdict.identity.deviceId]);
        return { ...verdict, isFirstUse };
      }
      if (isCurrent && tries === 1) this.#remember(hash, verdict);
      if (isCurrent || tries === MAX_LOOKUPS) return verdict;
    }
  }

  /** Drops cached verdicts, after tokens were revoked or replaced, devices moved, or tenants changed. */
  forget(deviceIds: readonly string[] | 'all'): void {
    this.#changes += 1;
    if (deviceIds === 'all') return this.#cache.clear();
    const forgotten = new Set(deviceIds);
    for (const [hash, { verdict }] of this.#cache) {
      if (verdict.ok && forgotten.has(verdict.identity.deviceId)) this.#cache.delete(hash);
    }
  }

  async lapsed(deviceIds: readonly string[]) {
    const rows = await withSystem(this.#db, 'which connected devices may not be any more', (tx) =>
      findLapsed(tx, deviceIds),
    );
    return rows.map(({ device_id: deviceId, ...row }) => ({
      deviceId,
      code: refusalOf(row) ?? 'UNAUTHENTICATED',
    }));
  }

  async #lookUp(hash: string): Promise<{ verdict: Verdict; isFirstUse: boolean }> {
    const row = await this.#find(hash);
    const verdict = verdictOn(row);
    if (!verdict.ok || row?.staged !== true) return { verdict, isFirstUse: false };
    return withSystem(this.#db, 'confirm an agent token by its first use', async (tx) => {
      if (await confirmToken(tx, { hash, deviceId: row.device_id })) return { verdict, isFirstUse: true };
      // Another request has just used the token, or replaced it.
      const now = (await findCredentials(tx, [hash])).get(hash);
      return { verdict: verdictOn(now), isFirstUse: false };
    });
  }

  #remember(hash: string, verdict: Verdict): void {
    this.#cache.delete(hash);
    this.#cache.set(hash, { verdict, until: clock.monotonic() + CACHED_FOR_MS });
    if (this.#cache.size <= CACHE_SIZE) return;
    const [oldest] = this.#cache.keys();
    if (oldest !== undefined) this.#cache.delete(oldest);
  }
}

function verdictOn(row: CredentialRow | undefined): Verdict {
  if (row === undefined) return { ok: false, code: 'UNAUTHENTICATED' };
  const code = refusalOf(row);
  if (code !== undefined) return { ok: false, code };
  return {
    ok: true,
    identity: {
      deviceId: row.device_id,
      orgId: row.org_id,
      siteId: row.site_id,
      partnerId: row.partner_id,
      machine: machineOf(row),
      ...(row.condition === 'pending' ? { isPending: true as const } : {}),
      ...(row.enrolled_as === null ? {} : { enrolledAs: row.enrolled_as }),
    },
  };
}

const machines = new Map<string, UpgradableMachine>();

/** One object for all devices that are alike: there are a few dozen kinds. */
function machineOf(row: CredentialRow): UpgradableMachine {
  const { os_type: osType, architecture, auto_update: autoUpdate, can_upgrade: canUpgrade } = row;
  const kind = `${osType} ${architecture} ${autoUpdate} ${canUpgrade}`;
  const known = machines.get(kind);
  if (known !== undefined) return known;
  const machine = { osType, architecture, autoUpdate, canUpgrade };
  machines.set(kind, machine);
  return machine;
}

function refusalOf({
  condition,
  tenant_gone: isGone,
  revoked,
}: Standing): RefusedVerdict['code'] | undefined {
  if (condition === 'decommissioned') return 'DECOMMISSIONED';
  if (isGone) return 'TENANT_INACTIVE';
  return revoked ? 'UNAUTHENTICATED' : undefined;
}

/**
 * Stages a new token for the device. The current one stays valid until the new one is used; staging again replaces a
 * token that was never used.
 * @param current  the token of the request; if it has been revoked meanwhile, there is no new one
 */
export async function stageAgentToken(
  tx: Tx,
  deviceId: string,
  current: string,
): Promise<{ token: string; hostname: string }> {
  const device = await Device.query(tx).findById(deviceId).forNoKeyUpdate().select('hostname');
  const token = newToken('agent');
  const isStaged = await stageToken(tx, {
    deviceId,
    hash: tokenHash(token),
    currentHash: tokenHash(current),
  });
  if (device === undefined || !isStaged) {
    throw new AppError('unauthenticated', 'The agent token is not valid.');
  }
  return { token, hostname: device.hostname };
}

/** Issues a new token for the device; earlier ones stop working. */
export async function issueAgentToken(tx: Tx, device: { id: string; orgId: string }): Promise<string> {
  await revokeAgentTokens(tx, [device.id]);
  const token = newToken('agent');
  await AgentCredential.query(tx).insert({
    tokenHash: tokenHash(token),
    deviceId: device.id,
    orgId: device.orgId,
  });
  return token;
}

/** The tokens of one device open another one from now on, whose own tokens end. */
export async function transferTokens(tx: Tx, { from, to }: { from: string; to: string }): Promise<void> {
  await revokeAgentTokens(tx, [to]);
  await AgentCredential.query(tx)
    .where({ device_id: from })
    .whereNull('revoked_at')
    .patch({ deviceId: to, enrolledAs: raw('coalesce(enrolled_as, ?::uuid)', [from]) });
}

/** The device that a token opens at this moment. */
export async function deviceOfToken(tx: Tx, token: string): Promise<string | undefined> {
  if (!isWellFormed('agent', token)) return undefined;
  const found = await AgentCredential.query(tx).findById(tokenHash(token)).whereNull('revoked_at');
  return found?.deviceId;
}

export async function revokeAgentTokens(tx: Tx, deviceIds: readonly string[]): Promise<void> {
  await AgentCredential.query(tx)
    .whereRaw('device_id = any(?::uuid[])', [[...deviceIds]])
    .whereNull('revoked_at')
    .patch({ revokedAt: clock.date() });
}
