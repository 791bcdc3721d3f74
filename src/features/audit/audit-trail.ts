import type { AuditEntry, AuditTrail } from '../../platform/http/mount.ts';
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
      if (row.org_id === null && row.partner_id === null) {
        entry.state.log.debug(
          { action: row.action, resourceId: row.resource_id },
          'audit.dropped_without_org',
        );
        return;
      }
      await tx('audit_outbox').insert(row);
    },
    committed: () => sealer.wake(),
  };
}

const orNull = <T, R>(value: T | null | undefined, make: (value: T) => R): R | null =>
  value == null ? null : make(value);

export function outboxRow(entry: AuditEntry) {
  const { actor, state, action, resourceType, resourceId, resourceName, details } = entry;
  const person = actor.kind === 'agent' ? undefined : actor;
  const actorId = asUuid(actor.kind === 'agent' ? actor.deviceId : (actor.apiKeyId ?? actor.userId));
  const resource = orNull(resourceId, asUuid);
  return {
    id: newId(),
    org_id: entry.orgId ?? actor.orgId,
    partner_id: entry.partnerId ?? actor.partnerId,
    actor_type: actor.kind,
    actor_id: actorId.id,
    actor_email: orNull(person?.email, (email) => cutText(email, 255)),
    action: cutText(action, 100),
    resource_type: cutText(resourceType, 50),
    resource_id: resource?.id ?? null,
    resource_name: orNull(resourceName, (name) => cutText(name, 255)),
    details: JSON.stringify(
      cleanJson({
        ...details,
        ...(actorId.raw === undefined ? {} : { rawActorId: actorId.raw }),
        ...(resource?.raw === undefined ? {} : { rawResourceId: resource.raw }),
      }),
    ),
    ip_address: orNull(state.client.ip, (ip) => cutText(ip, 45)),
    user_agent: orNull(state.client.userAgent, cleanText),
    result: 'success',
  };
}
