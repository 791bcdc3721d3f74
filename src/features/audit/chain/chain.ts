import { hash } from 'node:crypto';
import { z } from 'zod';
import { canonicalJson, type Json, jsonText } from './canonical-json.ts';

/** The checksum chain, independent of the database: the content of an entry and the canonical text that is hashed. */

export const ZERO_UUID = '00000000-0000-0000-0000-000000000000';

/** The hashed content of an entry: every column of `audit_logs` except the checksum. */
export const SealedContent = z.strictObject({
  action: z.string(),
  actorEmail: z.string().nullable(),
  actorId: z.string(),
  actorType: z.string(),
  /** Any JSON value; it comes from a JSON parser and is hashed completely. */
  details: z.custom<Json>((value) => value !== undefined),
  errorMessage: z.string().nullable(),
  id: z.string(),
  ipAddress: z.string().nullable(),
  orgId: z.string().nullable(),
  partnerId: z.string().nullable(),
  prevChecksum: z.string().nullable(),
  resourceId: z.string().nullable(),
  resourceName: z.string().nullable(),
  resourceType: z.string(),
  result: z.string(),
  seq: z.number(),
  /** ISO 8601 in UTC, to the millisecond. */
  timestamp: z.string(),
  userAgent: z.string().nullable(),
});
export type SealedContent = z.infer<typeof SealedContent>;

export const SealedEntry = SealedContent.extend({ checksum: z.string() });
export type SealedEntry = z.infer<typeof SealedEntry>;

/** An entry before it is assigned a position in its chain. */
export type UnsealedEntry = Omit<SealedContent, 'seq' | 'prevChecksum'>;

/** The chain of an entry: its organization's, or its partner's if it has no organization. */
export const chainOf = (entry: Pick<SealedContent, 'orgId' | 'partnerId'>): string =>
  entry.orgId ?? entry.partnerId ?? ZERO_UUID;

const text = (value: string | null) => (value === null ? 'null' : jsonText(value));

/**
 * The RFC 8785 text of the content with `v: 1`. The keys are written out in the order that RFC 8785 requires, which is
 * twice as fast as sorting them for each row; a test compares the result with `canonicalJson`.
 */
export function canonicalContent(e: SealedContent): string {
  return (
    `{"action":${text(e.action)},"actorEmail":${text(e.actorEmail)},"actorId":${text(e.actorId)}` +
    `,"actorType":${text(e.actorType)},"details":${canonicalJson(e.details)}` +
    `,"errorMessage":${text(e.errorMessage)},"id":${text(e.id)},"ipAddress":${text(e.ipAddress)}` +
    `,"orgId":${text(e.orgId)},"partnerId":${text(e.partnerId)},"prevChecksum":${text(e.prevChecksum)}` +
    `,"resourceId":${text(e.resourceId)},"resourceName":${text(e.resourceName)}` +
    `,"resourceType":${text(e.resourceType)},"result":${text(e.result)},"seq":${JSON.stringify(e.seq)}` +
    `,"timestamp":${text(e.timestamp)},"userAgent":${text(e.userAgent)},"v":1}`
  );
}

// The one-shot function is four times as fast as creating a Hash object.
export const sha256 = (text: string): string => hash('sha256', text);

/** The checksum of an entry: lower-case hex SHA-256 of its canonical content. */
export const checksumOf = (content: SealedContent): string => sha256(canonicalContent(content));

export interface ChainEnd {
  seq: number;
  checksum: string | null;
}

export const CHAIN_START: ChainEnd = { seq: 0, checksum: null };

/** Appends entries to the end of their chain, in the given order. */
export function seal(entries: readonly UnsealedEntry[], end: ChainEnd): SealedEntry[] {
  let { seq, checksum } = end;
  return entries.map((entry) => {
    const content: SealedContent = { ...entry, seq: ++seq, prevChecksum: checksum };
    const sealed = { ...content, checksum: checksumOf(content) };
    checksum = sealed.checksum;
    return sealed;
  });
}
