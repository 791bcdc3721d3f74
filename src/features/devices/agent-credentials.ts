import type { AgentCredentials, Verdict } from '../../hub/ports.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem, type Tx } from '../../platform/db/transaction.ts';
import { isWellFormed, newToken, tokenHash } from '../../platform/secrets/tokens.ts';

const CACHED_FOR_MS = 30_000;
const CACHE_SIZE = 50_000;

interface CredentialRow {
  device_id: string;
  org_id: string;
  site_id: string;
  partner_id: string;
  revoked: boolean;
  condition: string;
  tenant_gone: boolean;
}

/** Verdicts on tokens, remembered for a while, so that a fleet that reconnects does not ask the database twice. */
export class CachedAgentCredentials implements AgentCredentials {
  readonly #db: Db;
  readonly #cache = new Map<string, { verdict: Verdict; until: number }>();

  constructor(db: Db) {
    this.#db = db;
  }

  async verify(token: string): Promise<Verdict> {
    if (!isWellFormed('agent', token)) return { ok: false, code: 'UNAUTHENTICATED' };
    const hash = tokenHash(token);
    const known = this.#cache.get(hash);
    if (known !== undefined && known.until > Date.now()) return known.verdict;
    const verdict = await this.#look(hash);
    // Only good tokens: a stream of bad ones must not push them out.
    if (verdict.ok) this.#remember(hash, verdict);
    return verdict;
  }

  /** After a token was revoked or replaced. */
  forget(deviceId: string): void {
    for (const [hash, { verdict }] of this.#cache) {
      if (verdict.ok && verdict.identity.deviceId === deviceId) this.#cache.delete(hash);
    }
  }

  async #look(hash: string): Promise<Verdict> {
    const row = await withSystem(this.#db, 'find whose agent token this is', async (tx) => {
      const { rows } = await tx.raw(
        `select c.device_id, c.org_id, d.site_id, o.partner_id, c.revoked_at is not null as revoked, d.condition,
          o.deleted_at is not null or p.deleted_at is not null as tenant_gone
        from agent_credentials c
        join devices d on d.id = c.device_id and d.org_id = c.org_id
        join organizations o on o.id = c.org_id
        join partners p on p.id = o.partner_id
        where c.token_hash = ?`,
        [hash],
      );
      return rows[0] as CredentialRow | undefined;
    });
    if (row === undefined) return { ok: false, code: 'UNAUTHENTICATED' };
    if (row.condition === 'decommissioned') return { ok: false, code: 'DECOMMISSIONED' };
    if (row.tenant_gone) return { ok: false, code: 'TENANT_INACTIVE' };
    if (row.revoked) return { ok: false, code: 'UNAUTHENTICATED' };
    return {
      ok: true,
      identity: {
        deviceId: row.device_id,
        orgId: row.org_id,
        siteId: row.site_id,
        partnerId: row.partner_id,
      },
    };
  }

  #remember(hash: string, verdict: Verdict): void {
    this.#cache.delete(hash);
    this.#cache.set(hash, { verdict, until: Date.now() + CACHED_FOR_MS });
    if (this.#cache.size <= CACHE_SIZE) return;
    const [oldest] = this.#cache.keys();
    if (oldest !== undefined) this.#cache.delete(oldest);
  }
}

/** A new token for the device; earlier ones stop working. */
export async function issueAgentToken(tx: Tx, device: { id: string; orgId: string }): Promise<string> {
  await revokeAgentTokens(tx, device.id);
  const token = newToken('agent');
  await tx('agent_credentials').insert({
    token_hash: tokenHash(token),
    device_id: device.id,
    org_id: device.orgId,
  });
  return token;
}

export async function revokeAgentTokens(tx: Tx, deviceId: string): Promise<void> {
  await tx('agent_credentials')
    .where({ device_id: deviceId })
    .whereNull('revoked_at')
    .update({ revoked_at: new Date() });
}
