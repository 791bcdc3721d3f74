import { runPrepared } from '../../platform/db/prepared.ts';
import type { AuditEntry, AuditTrail } from '../../platform/http/audit.ts';
import { newId } from '../../platform/ids.ts';
import { asUuid, cleanJson, cleanText, cutText } from './clean.ts';

/**
 * Writes the entry to the outbox in the transaction of the deed: neither is there without the other. Sealing it, and
 * so its place in the chain, comes after the commit and keeps nobody waiting.
 */
export function createAuditTrail(sealer: { wake(): void }): AuditTrail {
  return {
    async record(tx, entry) {
      const row = outboxRow(entry);
      if (row.orgId === null && row.partnerId === null) {
        entry.state.log.debug(
          { action: row.action, resourceId: row.resourceId },
          'audit.dropped_without_org',
        );
        return;
      }
      await runPrepared(tx, INSERT, [
        row.id,
        row.orgId,
        row.partnerId,
        row.actorType,
        row.actorId,
        row.actorEmail,
        row.action,
        row.resourceType,
        row.resourceId,
        row.resourceName,
        row.details,
        row.ipAddress,
        row.userAgent,
        row.result,
        row.errorMessage,
      ]);
    },
    committed: () => sealer.wake(),
  };
}

// Every deed pays for this one, so it is planned once a connection.
const INSERT = {
  name: 'audit-record',
  text: `
    insert into audit_outbox (id, org_id, partner_id, actor_type, actor_id, actor_email, action, resource_type,
      resource_id, resource_name, details, ip_address, user_agent, result, error_message)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
};

const orNull = <T, R>(value: T | null | undefined, make: (value: T) => R): R | null =>
  value == null ? null : make(value);

export function outboxRow(entry: AuditEntry) {
  const { actor, state, action, resourceType, resourceId, resourceName, details } = entry;
  const person = actor.kind === 'agent' ? undefined : actor;
  const actorId = asUuid(actor.kind === 'agent' ? actor.deviceId : (actor.apiKeyId ?? actor.userId));
  const resource = orNull(resourceId, asUuid);
  return {
    id: newId(),
    orgId: entry.orgId ?? actor.orgId,
    partnerId: entry.partnerId ?? actor.partnerId,
    actorType: actor.kind,
    actorId: actorId.id,
    actorEmail: orNull(person?.email, (email) => cutText(email, 255)),
    action: cutText(action, 100),
    resourceType: cutText(resourceType, 50),
    resourceId: resource?.id ?? null,
    resourceName: orNull(resourceName, (name) => cutText(name, 255)),
    details: JSON.stringify(
      cleanJson({
        ...details,
        ...(actorId.raw === undefined ? {} : { rawActorId: actorId.raw }),
        ...(resource?.raw === undefined ? {} : { rawResourceId: resource.raw }),
      }),
    ),
    ipAddress: orNull(state.client.ip, (ip) => cutText(ip, 45)),
    userAgent: orNull(state.client.userAgent, cleanText),
    result: entry.result ?? 'success',
    errorMessage: orNull(entry.errorMessage, cleanText),
  };
}
