import { raw } from 'objection';
import { clock } from '../../../clock.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';
import { isWellFormed, newToken, tokenHash } from '../../../platform/secrets/tokens.ts';
import { Device } from '../device.model.ts';
import { AgentCredential } from './agent-credential.model.ts';

/**
 * Stages a new token for the device. The current one stays valid until the new one is used; staging again replaces a
 * token that was never used.
 * @param current  the token of the request; where it has been revoked meanwhile, there is no new one
 */
export async function stageAgentToken(
  tx: Tx,
  deviceId: string,
  current: string,
): Promise<{ token: string; hostname: string }> {
  const device = await Device.query(tx).findById(deviceId).forNoKeyUpdate().select('hostname');
  const token = newToken('agent');
  const { rowCount } = await tx.raw(
    `insert into agent_credentials (token_hash, device_id, org_id, staged, enrolled_as)
    select ?, c.device_id, c.org_id, true, c.enrolled_as from agent_credentials c
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
export async function giveTokensTo(tx: Tx, { from, to }: { from: string; to: string }): Promise<void> {
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
