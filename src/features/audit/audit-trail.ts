import type { AuditTrail } from '../../platform/http/mount.ts';
import { newId } from '../../platform/ids.ts';

/** Writes the entry in the transaction of the deed: neither is there without the other (SPEC 2.15). */
export const auditTrail: AuditTrail = {
  async record(
    tx,
    { actor, state, action, resourceType, orgId, partnerId, resourceId, resourceName, details },
  ) {
    await tx('audit_logs').insert({
      id: newId(),
      org_id: orgId ?? actor.orgId,
      partner_id: partnerId ?? actor.partnerId,
      actor_type: actor.kind,
      actor_id: actor.kind === 'agent' ? actor.deviceId : (actor.apiKeyId ?? actor.userId),
      actor_email: actor.kind === 'agent' ? null : actor.email,
      action,
      resource_type: resourceType,
      resource_id: resourceId ?? null,
      resource_name: resourceName ?? null,
      details: JSON.stringify(details ?? {}),
      ip_address: state.client.ip,
      user_agent: state.client.userAgent,
      result: 'success',
    });
  },
};
