import type { AgentCredentials, RefusedVerdict, Verdict } from '../../../hub/ports.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem, type Tx } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';
import { gathered } from '../../../platform/gathered.ts';
import { isWellFormed, newToken, tokenHash } from '../../../platform/secrets/tokens.ts';

const CACHED_FOR_MS = 30_000;
const CACHE_SIZE = 50_000;
/** A token is looked up again where others were revoked meanwhile: it may be one of them. */
const MAX_LOOKS = 3;

/** Deleted and churned tenants are gone for their agents; those of pending and suspended ones may report. */
const TENANT_GONE = `(o.deleted_at is not null or p.deleted_at is not null or o.status = 'churned' or p.status = 'churned')`;

/** What decides whether a device may come in. */
interface Standing {
  revoked: boolean;
  condition: string;
  tenant_gone: boolean;
}

interface CredentialRow extends Standing {
  token_hash: string;
  device_id: string;
  org_id: string;
  site_id: string;
  partner_id: string;
  staged: boolean;
}

/** Verdicts on tokens, remembered for a while, so that a fleet that reconnects does not ask the database twice. */
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
    // A fleet that comes back at once asks together.
    this.#find = gathered(
      (hashes) => withSystem(db, 'find whose agent tokens these are', (tx) => findCredentials(tx, hashes)),
      { withinMs: 5, atMost: 500 },
    );
  }

  async verify(token: string): Promise<Verdict> {
    if (!isWellFormed('agent', token)) return { ok: false, code: 'UNAUTHENTICATED' };
    const hash = tokenHash(token);
    const known = this.#cache.get(hash);
    if (known !== undefined && known.until > performance.now() && this.#isInTouch()) return known.verdict;
    for (let tries = 1; ; tries += 1) {
      const changesBefore = this.#changes;
      const { verdict, isFirstUse } = await this.#look(hash);
      // Only good tokens are remembered: a stream of bad ones must not push them out.
      if (!verdict.ok) return verdict;
      // What was read before a token was revoked or replaced may be about that one: it is read again, and not remembered.
      const isCurrent = changesBefore === this.#changes;
      if (isFirstUse) {
        this.forget([verdict.identity.deviceId]);
        return { ...verdict, isFirstUse };
      }
      if (isCurrent && tries === 1) this.#remember(hash, verdict);
      if (isCurrent || tries === MAX_LOOKS) return verdict;
    }
  }

  /** After tokens were revoked or replaced, their devices moved, or their tenants changed. */
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

  async #look(hash: string): Promise<{ verdict: Verdict; isFirstUse: boolean }> {
    const row = await this.#find(hash);
    const verdict = verdictOn(row);
    if (!verdict.ok || row?.staged !== true) return { verdict, isFirstUse: false };
    return withSystem(this.#db, 'confirm an agent token by its first use', async (tx) => {
      if (await confirmToken(tx, { hash, deviceId: row.device_id })) return { verdict, isFirstUse: true };
      // In this very moment somebody else has used it, or replaced it.
      const now = (await findCredentials(tx, [hash])).get(hash);
      return { verdict: verdictOn(now), isFirstUse: false };
    });
  }

  #remember(hash: string, verdict: Verdict): void {
    this.#cache.delete(hash);
    this.#cache.set(hash, { verdict, until: performance.now() + CACHED_FOR_MS });
    if (this.#cache.size <= CACHE_SIZE) return;
    const [oldest] = this.#cache.keys();
    if (oldest !== undefined) this.#cache.delete(oldest);
  }
}

async function findCredentials(tx: Tx, hashes: readonly string[]): Promise<Map<string, CredentialRow>> {
  const { rows } = await tx.raw(
    `select c.token_hash, c.device_id, c.org_id, d.site_id, o.partner_id, c.revoked_at is not null as revoked, c.staged, d.condition,
      ${TENANT_GONE} as tenant_gone
    from agent_credentials c
    join devices d on d.id = c.device_id and d.org_id = c.org_id
    join organizations o on o.id = c.org_id
    join partners p on p.id = o.partner_id
    where c.token_hash = any(?::bpchar[])`,
    [[...hashes]],
  );
  return new Map((rows as CredentialRow[]).map((row) => [row.token_hash, row]));
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
    },
  };
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

/** Devices without a token that counts, by the same rules as those that come in. */
async function findLapsed(
  tx: Tx,
  deviceIds: readonly string[],
): Promise<(Standing & { device_id: string })[]> {
  const { rows } = await tx.raw(
    `select * from (
      select asked.id as device_id, coalesce(d.condition, 'unknown') as condition,
        coalesce(${TENANT_GONE}, false) as tenant_gone,
        not exists (
          select from agent_credentials c where c.device_id = d.id and c.org_id = d.org_id and c.revoked_at is null
        ) as revoked
      from unnest(?::uuid[]) as asked (id)
      left join devices d on d.id = asked.id
      left join organizations o on o.id = d.org_id
      left join partners p on p.id = o.partner_id
    ) as standing where condition = 'decommissioned' or tenant_gone or revoked`,
    [[...deviceIds]],
  );
  return rows as (Standing & { device_id: string })[];
}

/**
 * The first use of a staged token ends the one before it. Whoever changes a device's tokens locks the device first, so
 * that no two of them wait for each other, and whoever comes second finds what the first has left.
 * @returns whether this was the first use
 */
async function confirmToken(
  tx: Tx,
  { hash, deviceId }: { hash: string; deviceId: string },
): Promise<boolean> {
  const { rowCount } = await tx.raw(
    `with device as (select id from devices where id = ? for no key update),
      used as (
        select c.device_id from agent_credentials c join device on device.id = c.device_id
        where c.token_hash = ? and c.staged and c.revoked_at is null for update of c
      )
    update agent_credentials c set staged = false, revoked_at = case when c.token_hash <> ? then now() end
    from used where c.device_id = used.device_id and c.revoked_at is null`,
    [deviceId, hash, hash],
  );
  return rowCount > 0;
}

/**
 * A token that the device may use from now on; the one it has stays valid until then. Given out again before it was
 * used, it is replaced.
 * @param current  the token by which it was asked for; if that has died meanwhile, there is no new one
 */
export async function stageAgentToken(
  tx: Tx,
  deviceId: string,
  current: string,
): Promise<{ token: string; hostname: string }> {
  const device = await tx('devices')
    .where({ id: deviceId })
    .forNoKeyUpdate()
    .first<{ hostname: string } | undefined>('hostname');
  const token = newToken('agent');
  const { rowCount } = await tx.raw(
    `insert into agent_credentials (token_hash, device_id, org_id, staged)
    select ?, c.device_id, c.org_id, true from agent_credentials c
    where c.token_hash = ? and c.device_id = ? and c.revoked_at is null and not c.staged
    on conflict (device_id) where staged and revoked_at is null
    do update set token_hash = excluded.token_hash, created_at = excluded.created_at`,
    [tokenHash(token), tokenHash(current), deviceId],
  );
  if (device === undefined || rowCount === 0) {
    throw new AppError('unauthenticated', 'The agent token is not valid.');
  }
  return { token, hostname: device.hostname };
}

/** A new token for the device; earlier ones stop working. */
export async function issueAgentToken(tx: Tx, device: { id: string; orgId: string }): Promise<string> {
  await revokeAgentTokens(tx, [device.id]);
  const token = newToken('agent');
  await tx('agent_credentials').insert({
    token_hash: tokenHash(token),
    device_id: device.id,
    org_id: device.orgId,
  });
  return token;
}

export async function revokeAgentTokens(tx: Tx, deviceIds: readonly string[]): Promise<void> {
  await tx('agent_credentials')
    .whereRaw('device_id = any(?::uuid[])', [[...deviceIds]])
    .whereNull('revoked_at')
    .update({ revoked_at: new Date() });
}
