import type { AuditTrail } from '../../platform/http/mount.ts';
import { newId } from '../../platform/ids.ts';

/** Writes the entry in the transaction of the deed: neither is there without the other (SPEC 2.15). */
export const auditTrail: AuditTrail = {
  async record(
    tx,
    { caller, state, action, resourceType, orgId, partnerId, resourceId, resourceName, details },
  ) {
    await tx('audit_logs').insert({
      id: newId(),
      org_id: orgId ?? caller.orgId,
      partner_id: partnerId ?? caller.partnerId,
      actor_type: caller.kind,
      actor_id: caller.apiKeyId ?? caller.userId,
      actor_email: caller.email,
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
