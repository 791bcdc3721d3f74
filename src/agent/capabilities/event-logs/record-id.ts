import { createHash } from 'node:crypto';

/**
 * Ids of entries whose log numbers none in a way that fits into JSON: the millisecond, above eleven bits that tell apart
 * the entries within it. Together they are below 2^53 until the year 2109; the times of a clock that is further ahead
 * start again at zero.
 */
const WITHIN_BITS = 11;
const WITHIN = 2 ** WITHIN_BITS;
const MILLISECONDS = 2 ** (53 - WITHIN_BITS);

/** @param within  a number that entries of the same millisecond do not share */
export function timedRecordId(ms: number, within: number): number {
  return (ms % MILLISECONDS) * WITHIN + (within % WITHIN);
}

/** The millisecond of an entry. */
export function recordTime(recordId: number): number {
  return Math.floor(recordId / WITHIN);
}

/** All times that an id may stand for. */
export function recordTimes(recordId: number): number[] {
  return [recordTime(recordId), recordTime(recordId) + MILLISECONDS];
}

/** A number for entries that have none, made from what they hold. */
export function numberOf(...content: readonly string[]): number {
  return createHash('sha256').update(content.join('\0')).digest().readUInt32BE(0);
}
