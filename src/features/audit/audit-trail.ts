import { runPrepared } from '../../../platform/db/prepared.ts';
import type { AuditActor, AuditEntry, AuditTrail } from '../../../platform/http/audit.ts';
import { newId } from '../../../platform/ids.ts';
import { storableText } from '../../../protocol/index.ts';
import { ZERO_UUID } from '../chain/chain.ts';
import { asUuid, sanitizeJson, truncateText } from './sanitize.ts';

/**
 * Writes each entry to the outbox in the same transaction as the action it describes, so neither commits without the
 * other. The sealer assigns the entry its position in the chain after the commit, so no request waits for sealing.
 */
export function createAuditTrail(sealer: { wake(): void }): AuditTrail {
  return {
    async record(tx, entry) {
      const row = rowOf(entry);
      if (row !== undefined) await runPrepared(tx, INSERT, Object.values(row));
    },
    async recordAll(tx, entries) {
      const rows = entries.flatMap((entry) => rowOf(entry) ?? []);
      if (rows.length > 0) await runPrepared(tx, INSERT_ALL, [JSON.stringify(rows)]);
    },
    committed: () => sealer.wake(),
  };
}

/**
 * Returns undefined for an entry without an organization or partner (SPEC 6), except when the actor has system scope:
 * the actions of System Admins are recorded in a chain of their own, identified by the zero UUID.
 */
function rowOf(entry: AuditEntry): OutboxRow | undefined {
  const row = outboxRow(entry);
  const isOfSystem = 'scope' in entry.actor && entry.actor.scope === 'system';
  if (row.org_id !== null || row.partner_id !== null || isOfSystem) return row;
  entry.state.log.debug({ action: row.action, resourceId: row.resource_id }, 'audit.dropped_without_org');
  return undefined;
}

const COLUMNS = `id, org_id, partner_id, actor_type, actor_id, actor_email, action, resource_type, resource_id,
  resource_name, details, ip_address, user_agent, result, error_message`;

// Every audited request runs this statement, so it is prepared once per connection.
const INSERT = {
  name: 'audit-record',
  text: `
    insert into audit_outbox (${COLUMNS})
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
};

const INSERT_ALL = {
  name: 'audit-record-all',
  text: `
    insert into audit_outbox (${COLUMNS})
    select ${COLUMNS.replace('details', 'details::jsonb')}
    from json_to_recordset($1::json) as r (id uuid, org_id uuid, partner_id uuid, actor_type text, actor_id uuid,
      actor_email text, action text, resource_type text, resource_id uuid, resource_name text, details text,
      ip_address text, user_agent text, result text, error_message text)`,
};

const orNull = <T, R>(value: T | null | undefined, make: (value: T) => R): R | null =>
  value == null ? null : make(value);

type OutboxRow = ReturnType<typeof outboxRow>;

/** Keys are column names, in the order of the parameters of `INSERT`. */
function outboxRow(entry: AuditEntry) {
  const { actor, state, action, resourceType, resourceId, resourceName, details } = entry;
  const actorId = asUuid(idOf(actor));
  const resource = orNull(resourceId, asUuid);
  return {
    id: newId(),
    org_id: entry.orgId ?? actor.orgId,
    partner_id: entry.partnerId ?? actor.partnerId,
    actor_type: actor.kind,
    actor_id: actorId.id,
    actor_email: 'email' in actor ? truncateText(actor.email, 255) : null,
    action: truncateText(action, 100),
    resource_type: truncateText(resourceType, 50),
    resource_id: resource?.id ?? null,
    resource_name: orNull(resourceName, (name) => truncateText(name, 255)),
    details: JSON.stringify(
      sanitizeJson({
        ...details,
        ...(actorId.raw === undefined ? {} : { rawActorId: actorId.raw }),
        ...(resource?.raw === undefined ? {} : { rawResourceId: resource.raw }),
      }),
    ),
    ip_address: orNull(state.client.ip, (ip) => truncateText(ip, 45)),
    user_agent: orNull(state.client.userAgent, storableText),
    result: entry.result ?? 'success',
    error_message: orNull(entry.errorMessage, storableText),
  };
}

function idOf(actor: AuditActor): string {
  if (actor.kind === 'system') return ZERO_UUID;
  return actor.kind === 'agent' ? actor.deviceId : (actor.apiKeyId ?? actor.userId);
}
