import { runPrepared } from '../../platform/db/transaction.ts';
import type { AuditActor, AuditEntry, AuditTrail } from '../../platform/http/audit.ts';
import { newId } from '../../platform/ids.ts';
import { storableText, storableJson } from '../../protocol/index.ts';
import { ZERO_UUID, type Json } from './chain.ts';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import type { AuditNote } from '../../platform/http/route.ts';

/**
 * Converts values to a form that Postgres stores and returns unchanged, so that the hash of the stored entry equals the
 * hash of the entry that was recorded. Nothing here may throw: a failed entry would roll back the action it describes.
 */

export const truncateText = (text: string, length: number): string => storableText(text.slice(0, length));

/** The value as JSON, with storable texts and keys and a limited depth. */
export function sanitizeJson(value: unknown): Json {
  try {
    // JSON drops undefined and functions, writes dates as text and turns NaN and infinity into null.
    const text: string | undefined = JSON.stringify(value, (_key, one: unknown) =>
      typeof one === 'bigint' ? String(one) : one,
    );
    return text === undefined ? null : (storableJson(JSON.parse(text)) as Json);
  } catch (error) {
    return { unreadable: storableText(String(error)) };
  }
}

const Uuid = z.guid();

/** A UUID in the form that Postgres returns; for any other id the zero UUID, with the original text as `raw`. */
export function asUuid(id: string): { id: string; raw?: string } {
  return Uuid.safeParse(id).success ? { id: id.toLowerCase() } : { id: ZERO_UUID, raw: id };
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

/**
 * Writes each entry to the outbox in the same transaction as the action it describes, so neither commits without the
 * other. The chain writer assigns the entry its position in the chain after the commit, so no request waits for sealing.
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

/** Repeated reads and further pages within this time are covered by the first entry. */
const SAME_READ_MS = 600_000;

const MOST = 10_000;

/**
 * Distinguishes a new read of stored data from further pages of the same read, so that the audit trail has one entry
 * per read instead of one per page. Each server keeps its own memory; the worst case is a duplicate entry.
 */
export class RepeatedReads {
  readonly #sameReadMs: number;
  readonly #until = new Map<string, number>();

  constructor(sameReadMs = SAME_READ_MS) {
    this.#sameReadMs = sameReadMs;
  }

  /**
   * Returns the note for a `data.access` entry, or nothing if the caller read the same data recently.
   * @param details  what is read and with which conditions, without the page number
   */
  noteOf(
    { caller, afterCommit }: Pick<Context, 'caller' | 'afterCommit'>,
    device: { id: string; orgId: string; hostname: string },
    details: Record<string, unknown>,
  ): AuditNote[] {
    const note = { orgId: device.orgId, resourceId: device.id, resourceName: device.hostname, details };
    return this.once({ caller, afterCommit }, [device.id, details], note);
  }

  /**
   * Returns the note, or nothing if the caller read the same data recently.
   * @param what  names the data, as JSON
   * @param forMs  how long the entry covers further reads
   */
  once(
    { caller, afterCommit }: Pick<Context, 'caller' | 'afterCommit'>,
    what: unknown[],
    note: AuditNote,
    forMs = this.#sameReadMs,
  ): AuditNote[] {
    const key = JSON.stringify([caller.apiKeyId ?? caller.userId, ...what]);
    if (this.isCovered(key)) return [];
    // A later read may be skipped only if the entry of the first one was committed.
    afterCommit(() => this.cover(key, forMs));
    return [note];
  }

  /** Whether a read has an entry that still covers it. */
  isCovered(key: string): boolean {
    const until = this.#until.get(key);
    return until !== undefined && until > clock.monotonic();
  }

  /** To call when the entry of a read is committed. */
  cover(key: string, forMs = this.#sameReadMs): void {
    this.#until.delete(key);
    this.#until.set(key, clock.monotonic() + forMs);
    if (this.#until.size <= MOST) return;
    const [oldest] = this.#until.keys();
    if (oldest !== undefined) this.#until.delete(oldest);
  }
}
