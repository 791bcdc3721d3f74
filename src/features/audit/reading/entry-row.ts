import type { KnownPerson } from '../../users/index.ts';
import type { FullEntry, LogEntry, ShownEntry } from './audit.schema.ts';
import { categoryOf } from './categories.ts';

/** A stored entry, and its forms in responses. */
export interface EntryRow {
  id: string;
  orgId: string | null;
  partnerId: string | null;
  timestamp: Date;
  actorType: FullEntry['actorType'];
  actorId: string;
  actorEmail: string | null;
  action: string;
  resourceType: string;
  resourceId: string | null;
  resourceName: string | null;
  details: Record<string, unknown>;
  ipAddress: string | null;
  userAgent: string | null;
  result: LogEntry['result'];
  errorMessage: string | null;
  seq: string;
  checksum: string;
  prevChecksum: string | null;
}

export type People = ReadonlyMap<string, KnownPerson>;

export function shownEntry(row: EntryRow, people: People): ShownEntry {
  const person = people.get(row.actorId);
  const { before = null, after = null, sessionId } = row.details;
  return {
    id: row.id,
    timestamp: row.timestamp.toISOString(),
    action: row.action,
    resource: row.resourceName ?? row.resourceId ?? row.resourceType,
    resourceType: row.resourceType,
    details: JSON.stringify(row.details),
    ipAddress: row.ipAddress,
    userAgent: row.userAgent,
    sessionId: typeof sessionId === 'string' ? sessionId : null,
    user: {
      name: person?.name ?? null,
      email: row.actorEmail ?? person?.email ?? null,
      role: person?.roleName ?? null,
      // Required by SPEC 4.10; users have no department.
      department: null,
    },
    changes: { before, after },
  };
}

export function logEntry(row: EntryRow, people: People): LogEntry {
  const person = people.get(row.actorId);
  return {
    id: row.id,
    timestamp: row.timestamp.toISOString(),
    user: {
      id: row.actorId,
      name: person?.name ?? null,
      email: row.actorEmail ?? person?.email ?? null,
      role: person?.roleName ?? null,
    },
    action: row.action,
    resource: { type: row.resourceType, id: row.resourceId, name: row.resourceName },
    category: categoryOf(row.action),
    result: row.result,
    ipAddress: row.ipAddress,
    userAgent: row.userAgent,
    details: row.details,
  };
}

export function fullEntry(row: EntryRow, people: People): FullEntry {
  const { orgId, partnerId, actorType, actorId, errorMessage, seq, checksum, prevChecksum } = row;
  return {
    ...logEntry(row, people),
    orgId,
    partnerId,
    actorType,
    actorId,
    errorMessage,
    seq: Number(seq),
    checksum,
    prevChecksum,
  };
}
